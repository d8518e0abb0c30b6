"""The whole expansion: any operation means the same, and only few operations are left."""

import numpy as np
import pytest

from hloom.base.diagnostics import HloError
from hloom.interp import draw_instance, evaluate, random_arguments
from hloom.interp.draw import DRAW, load_drawers
from hloom.ir.builder import Builder
from hloom.ir.copy import copy_module
from hloom.ir.text import parse_module, show_module
from hloom.ir.verify import verify
from hloom.passes import Pipeline
from hloom.passes.expand.expansion import ExpandError
from hloom.passes.expand.map_inliner import BY_ELEMENT
from hloom.passes.expand.pipeline_order import EXPANSION, LAST
from tests.pass_case import difference, leaves
from tests.processor_time import timed

load_drawers()
LEFT = BY_ELEMENT - {"stochastic-convert"} | set(
    """broadcast reshape bitcast transpose slice dynamic-slice dynamic-update-slice pad concatenate
    reverse iota constant gather scatter copy reduce reduce-window select-and-scatter dot
    convolution sort topk fft cholesky triangular-solve while conditional call custom-call parameter
    tuple get-tuple-element rng-get-and-update-state infeed outfeed after-all add-dependency fusion
    send send-done recv recv-done""".split()
)
"""Operations that a code generator meets after the expansion."""
TALKS = frozenset(
    """infeed outfeed send send-done recv recv-done rng async-update
    copy-start copy-done""".split()
)
"""Opcodes whose instances need a host, several devices, or leave their values open."""
REFUSED = frozenset(
    """ragged-all-to-all collective-permute collective-permute-start
    collective-permute-done""".split()
)
"""Opcodes some of whose instances are refused with a reason, on one device."""
WHOLE = Pipeline("expansion", (*EXPANSION, *LAST))


@pytest.mark.parametrize("opcode", sorted(set(DRAW) - TALKS))
def test_every_operation_is_expanded(opcode):
    for seed in range(10):
        module = draw_instance(opcode, seed)
        if module.replica_count * module.num_partitions > 1:
            continue
        before = copy_module(module)
        try:
            WHOLE.run(module)
        except ExpandError as error:
            assert opcode in REFUSED, error
            continue
        verify(module)
        assert {i.opcode for i in module.instructions()} <= LEFT, show_module(module)
        arguments = random_arguments(before, seed)
        want, have = (leaves(evaluate(m, *arguments)) for m in (before, module))
        for old, new in zip(want, have, strict=True):
            assert difference(old, new, 2e-4) is None, f"{before}\n{show_module(module)}"


def test_parameters_of_run_time_size():
    text = """
HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[<=9,3] parameter(0)
  p = (f32[<=9], s32[]) parameter(1)
  y = f32[<=9] get-tuple-element(p), index=0
  zero = f32[] constant(0)
  r = f32[3] reduce(x, zero), dimensions={0}, to_apply=sum
  q = f32[<=9] exponential(y)
  d = f32[3] dot(q, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  z = f32[<=18] concatenate(q, y), dimensions={0}
  ROOT t = (f32[3], f32[3], f32[<=18], f32[<=9,3]) tuple(r, d, z, x)
}"""
    for seed in range(5):
        module = parse_module(text)
        WHOLE.run(module)
        verify(module)
        arguments = random_arguments(parse_module(text), seed)
        want, have = (leaves(evaluate(m, *arguments)) for m in (parse_module(text), module))
        for old, new in zip(want, have, strict=True):
            assert difference(old, new, 1e-5) is None
        targets = {
            i.attrs.custom_call_target for i in module.instructions() if i.opcode == "custom-call"
        }
        assert targets == {"PadToStatic", "SliceToDynamic"}


def test_what_cannot_be_padded_says_why():
    module = parse_module(
        "HloModule m\nENTRY e {\n x = f32[<=8,8] parameter(0)\n ROOT c = f32[<=8,8] cholesky(x)\n}"
    )
    with pytest.raises(HloError, match=r"no code is made for cholesky.*run-time size"):
        WHOLE.run(module)


def test_the_work_is_linear():
    """Fourteen thousand instructions pass in a few times a thousand's time per instruction."""

    def seconds(count):
        b = Builder("long")
        x = b.parameter("f32[8,8]")
        y = x
        for k in range(count // 4):
            y = b.add(y, x) if k % 2 else b.tanh(y)
            w = b.transpose(y, dimensions=(1, 0))
            y = b.dot(y, w, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))
            y = b.reshape(y, shape="f32[8,8]")
        module = b.build(y)
        with timed() as spent:
            WHOLE.run(module)
        return spent.seconds

    seconds(200)
    short, long = min(seconds(1000) for _ in range(3)), seconds(8000)
    assert long < 8 * short * 4
    assert np.isfinite(long)
