"""Operations that an asynchronous start wraps: they end in copies enough, and in none too many."""

import numpy as np
import pytest

from hloom.base.diagnostics import HloError
from hloom.interp import draw_instance, evaluate, random_arguments
from hloom.ir.copy import copy_module
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.text import parse_module
from hloom.ir.verify import verify
from hloom.memory.assign import assign_buffers
from hloom.memory.copies import insert_copies
from hloom.schedule.least_memory import least_memory_order
from hloom.types.shape import shape, tuple_shape
from tests.fuzz.check_native import NotJudged, Trial, difference
from tests.fuzz.programs_native import single
from tests.fuzz.run_native import is_tried
from tests.memory.memory_machine import MemoryMachine, assert_same_result

UPDATE = """w { a = f32[8] parameter(0)
  u = f32[2] parameter(1)
  z = s32[] parameter(2)
  ROOT d = f32[8] dynamic-update-slice(a, u, z) }
"""
FUSED = """f { a = f32[8] parameter(0)
  u = f32[2] parameter(1)
  z = s32[] parameter(2)
  ROOT d = f32[8] dynamic-update-slice(a, u, z) }
w { a = f32[8] parameter(0)
  u = f32[2] parameter(1)
  z = s32[] parameter(2)
  ROOT d = f32[8] fusion(a, u, z), kind=kLoop, calls=f }
"""
CALLED = """i { a = f32[8] parameter(0)
  u = f32[2] parameter(1)
  z = s32[] parameter(2)
  n = f32[8] negate(a)
  d = f32[8] dynamic-update-slice(a, u, z)
  ROOT r = f32[8] add(n, d) }
w { a = f32[8] parameter(0)
  u = f32[2] parameter(1)
  z = s32[] parameter(2)
  ROOT d = f32[8] call(a, u, z), to_apply=i }
"""
SCATTERED = """sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
w { a = f32[8] parameter(0)
  u = f32[2] parameter(1)
  z = s32[] parameter(2)
  ROOT d = f32[8] scatter(a, z, u), update_window_dims={0}, inserted_window_dims={},
    scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=sum }
"""
BODIES = {"update": UPDATE, "fusion": FUSED, "call": CALLED, "scatter": SCATTERED}
START = "((f32[8],f32[2],s32[]), f32[8], s32[]) async-start(n, u, z), calls=w"
AROUND = {
    "of a parameter": (f"s = {START.replace('(n,', '(x,')}\n  ROOT d = f32[8] async-done(s)", 1),
    "of what nobody else reads": (f"s = {START}\n  ROOT d = f32[8] async-done(s)", 0),
    "read while it runs": (f"""s = {START}
  m = f32[8] sine(n)
  d = f32[8] async-done(s)
  ROOT r = f32[8] add(m, d)""", 1),
    "read afterwards": (f"""s = {START}
  d = f32[8] async-done(s)
  m = f32[8] multiply(n, d)
  ROOT r = f32[8] add(m, d)""", 1),
    "updated in between": (f"""s = {START}
  k = {START.split(" async-start")[0]} async-update(s)
  ROOT d = f32[8] async-done(k)""", 0),
}  # fmt: skip


def placed(module: Module) -> int:
    """Run a module in the bytes that it is given, and compare; how many copies it took."""
    arguments = random_arguments(module, 0)
    expected = evaluate(module, *arguments)
    order = least_memory_order(module)
    inserted = insert_copies(module, order).inserted
    verify(order.scheduled(module))
    machine = MemoryMachine(module, order, assign_buffers(module, order))
    assert_same_result(expected, machine.run(arguments))
    return inserted


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("body", BODIES)
def test_updates_in_place_are_copied_where_they_must_be(body: str, around: str):
    entry, copies = AROUND[around]
    module = parse_module(f"""HloModule m
{BODIES[body]}ENTRY e {{ x = f32[8] parameter(0)
  u = f32[2] parameter(1)
  z = s32[] parameter(2)
  n = f32[8] negate(x)
  {entry} }}""")
    verify(module)
    native = copy_module(module)
    inserted = placed(module)
    assert inserted <= copies + (body == "call")
    assert difference(native, Trial()) == ""


def test_a_loop_in_place_is_copied_before_the_start():
    module = parse_module("""HloModule m
c { p = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT }
b { p = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[8] get-tuple-element(p), index=1
  o = s32[] constant(1)
  j = s32[] add(i, o)
  u = f32[1] constant({5})
  y = f32[8] dynamic-update-slice(x, u, i)
  ROOT t = (s32[], f32[8]) tuple(j, y) }
w { p = (s32[], f32[8]) parameter(0)
  ROOT q = (s32[], f32[8]) while(p), condition=c, body=b }
ENTRY e { x = f32[8] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[8]) tuple(z, x)
  s = (((s32[], f32[8])), (s32[], f32[8]), s32[]) async-start(t), calls=w
  d = (s32[], f32[8]) async-done(s)
  y = f32[8] get-tuple-element(d), index=1
  ROOT r = f32[8] add(x, y) }""")
    verify(module)
    native = copy_module(module)
    assert placed(module) == 2
    assert len(module["w"].instructions) == 2
    assert difference(native, Trial()) == ""


def wrapped(opcode: str, seed: int) -> Module | None:
    """A drawn instance with its operation behind an asynchronous start; None where it has none."""
    module = draw_instance(opcode, np.random.default_rng(seed))
    if not is_tried(module) or module.schedule is not None:
        return None
    c = module.entry
    i = next((x for x in c.instructions if x.opcode == opcode), None)
    if i is None or any(not x.shape.is_array for x in i.operands) or i.has_control_edges:
        return None
    body = module.add_computation("wrapped")
    attrs = OPS["parameter"].attrs
    inside: list[Instruction] = [
        body.append("parameter", attrs(number=k), (), x.shape) for k, x in enumerate(i.operands)
    ]
    body.root = body.append(opcode, i.attrs, tuple(inside), i.shape, None, i.called)
    of = tuple_shape((tuple_shape(x.shape for x in i.operands), i.shape, shape("s32")))
    start = c.append("async-start", OPS["async-start"].attrs(), i.operands, of, None, (body,))
    done = c.append("async-done", OPS["async-done"].attrs(), (start,), i.shape)
    c.replace(i, done)
    c.erase(i)
    c.reorder(c.in_order())
    try:
        verify(module)
    except HloError:
        return None
    return module


@pytest.mark.parametrize("opcode", [op for op in single() if op not in ("parameter", "domain")])
def test_any_operation_may_be_wrapped(opcode: str):
    module = wrapped(opcode, 0)
    if module is None:
        pytest.skip("no instance that an asynchronous computation may hold")
    try:
        assert difference(module, Trial()) == ""
    except NotJudged:
        pytest.skip("the interpreter does not say what it computes")
    if not any(i.shape.is_dynamic for i in module.instructions()):
        placed(module)
