"""Factors: what a rule says does not depend on other parts, does not, for drawn instances."""

from math import prod

import numpy as np
import pytest

from hloom import parse
from hloom.interp.draw import draw_instance
from hloom.interp.machine import evaluate
from hloom.interp.sample import random_arguments
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS, opcodes
from hloom.ir.traits import ELEMENTWISE
from hloom.passes import pass_named
from hloom.passes.sharding.factors import RULES, Factors, Kind, factors
from hloom.types.literal import Literal

NAMES_ONLY = """async-start async-update async-done copy-start copy-done call conditional while
fusion after-all get-tuple-element tuple infeed outfeed send send-done recv recv-done custom-call
all-gather-start all-reduce-start collective-permute-start all-gather-done all-reduce-done
collective-permute-done collective-reduce ragged-all-to-all""".split()
"""Opcodes without factors: plumbing, halves, what talks to others by run-time sizes."""


def test_each_opcode_has_a_rule_or_is_named_here():
    factors(draw_instance("add", 0).entry.root)  # loads the rules
    known = {*RULES, *opcodes(ELEMENTWISE)}
    assert set(OPS) - known == set(NAMES_ONLY)
    assert not known & set(NAMES_ONLY)


def instance_of(module: Module, opcode: str) -> Instruction:
    return next(i for i in module.entry.instructions if i.opcode == opcode)


def part_of(found: Factors, dimensions, sizes, factor: int) -> np.ndarray | None:
    """Of each element, its index in the factor; None where the value has it not."""
    for d, numbers in enumerate(dimensions):
        if factor in numbers:
            behind = numbers[numbers.index(factor) + 1 :]
            inner = prod(found.factors[n].size for n in behind)
            index = np.arange(sizes[d]) // inner % found.factors[factor].size
            shape = [1] * len(sizes)
            shape[d] = sizes[d]
            return np.broadcast_to(index.reshape(shape), sizes)
    return None


def same(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind in "biu":
        return bool((a == b).all())
    wide = (np.complex128 if a.dtype.kind == "c" else np.float64) if a.dtype.kind != "V" else None
    a, b = (np.asarray(x).astype(wide) for x in (a, b))
    with np.errstate(all="ignore"):
        return bool(np.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True))


def results(module: Module, arguments: list[Literal]) -> list[np.ndarray]:
    return [np.asarray(x.array) for x in evaluate(module, *arguments).leaves() if not x.is_token]


@pytest.mark.parametrize("opcode", sorted(set(OPS) - set(NAMES_ONLY) - set(opcodes(ELEMENTWISE))))
def test_parts_of_results_depend_on_parts_of_operands_only(opcode):
    if opcode in ("rng", "rng-get-and-update-state", "parameter", "all-gather"):
        pytest.skip("gives another value each time, or reads nothing")
    checked = 0
    for seed in range(40):
        module = draw_instance(opcode, seed)
        i = instance_of(module, opcode)
        if i is not module.entry.root or module.replica_count * module.num_partitions > 1:
            continue
        found = factors(i)
        assert found is not None
        checked += _check(module, i, found, seed)
    if opcode in MOVING:
        assert checked > 0


MOVING = """broadcast transpose reshape slice pad concatenate dot convolution reduce gather scatter
dynamic-slice dynamic-update-slice sort topk fft cholesky triangular-solve""".split()


def _check(module: Module, i: Instruction, found: Factors, seed: int) -> int:
    _check_sizes(i, found)
    before, other = (random_arguments(module, seed=s) for s in (seed, seed + 1000))
    parameters = {p: p.attrs.number for p in module.entry.parameters}
    expected = results(module, before)
    checked = 0
    for number, factor in enumerate(found.factors):
        if factor.kind != Kind.PASS or factor.size < 2:
            continue
        mine = seed % factor.size
        arguments = list(before)
        for k, x in enumerate(i.operands):
            if x not in parameters or not x.shape.is_array:
                continue
            index = part_of(found, found.operands[k], x.shape.dims, number)
            if index is None:
                continue
            at = parameters[x]
            old, new = np.asarray(arguments[at].array), np.asarray(other[at].array)
            arguments[at] = Literal(x.shape, np.where(index == mine, old, new).astype(old.dtype))
            checked += 1
        now = results(module, arguments)
        for k, leaf in enumerate(i.shape.leaves()):
            index = part_of(found, found.results[k], leaf.dims, number)
            if index is not None and expected[k].shape == leaf.dims:  # else of run-time size
                kept = index == mine
                assert same(expected[k][kept], now[k][kept]), (str(i), number, found)
    return checked


def _check_sizes(i: Instruction, found: Factors) -> None:
    """The factors of a dimension are all of it, but for those of moving elements."""
    sizes = [x.shape.dims if x.shape.is_array else () for x in i.operands]
    sizes += [leaf.dims if leaf.is_array else () for leaf in i.shape.leaves()]
    for dims, dimensions in zip(sizes, found.tensors, strict=True):
        assert len(dims) == len(dimensions)
        for size, numbers in zip(dims, dimensions):
            assert numbers
            parts = [found.factors[n] for n in numbers]
            if all(f.kind != Kind.PERMUTE for f in parts):
                assert prod(f.size for f in parts) == size


REDUCING = """
HloModule m

ENTRY main {
  x = f32[4,6] parameter(0)
  y = f32[6,8] parameter(1)
  ROOT d = f32[4,8] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def test_a_dot_is_reduced_along_what_it_contracts():
    found = factors(parse(REDUCING).entry.root)
    assert found is not None
    assert [f.kind for f in found.factors] == [Kind.REDUCE, Kind.PASS, Kind.PASS]
    assert found.operands == (((1,), (0,)), ((0,), (2,)))
    assert found.results == (((1,), (2,)),)
    assert found.is_reduced(0, 0)
    assert not found.is_reduced(1, 0)


@pytest.mark.parametrize(
    ("before", "after", "shared"),
    [
        ("8,4", "32", [8, 4]),
        ("32", "8,4", [8, 4]),
        ("2,3,4", "6,4", [2, 3, 4]),
        ("1,8", "8,1", [8]),
        ("6,4", "4,6", [2]),
        ("6,4,5", "4,6,5", [2, 5]),
        ("12", "3,4", [3, 4]),
        ("7", "7,1,1", [7]),
        ("3,2", "2,3", []),
    ],
)
def test_a_reshape_shares_what_both_sides_can_be_cut_into(before, after, shared):
    text = f"HloModule m\nENTRY e {{\n x = f32[{before}] parameter(0)\n"
    module = parse(text + f" ROOT r = f32[{after}] reshape(x)\n}}")
    found = factors(module.entry.root)
    assert found is not None
    assert [f.size for f in found.factors if f.kind == Kind.PASS] == shared
    _check_sizes(module.entry.root, found)


@pytest.mark.parametrize(("whole", "part"), [("4,6", "4,5"), ("4,6", "3"), ("6,4", "6,2")])
def test_a_bitcast_that_leaves_elements_out_has_no_factors(whole, part):
    module = parse(f"""HloModule m
    ENTRY e {{ x = f32[{whole}] parameter(0)
      ROOT r = f32[{part}] bitcast(x) }}""")
    assert {f.kind for f in factors(module.entry.root).factors} == {Kind.WHOLE}


def test_scalars_beside_the_arrays_of_a_map():
    """Their values go everywhere; in either place."""
    module = parse("""HloModule m
    scaled { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] subtract(a, b) }
    ENTRY e { x = f32[8,6] parameter(0), sharding={devices=[4,2]<=[8]} y = f32[] parameter(1)
      m = f32[8,6] map(x, y), dimensions={0,1}, to_apply=scaled
      ROOT n = f32[8,6] map(y, m), dimensions={0,1}, to_apply=scaled }""")
    pass_named("sharding-propagation").run(module)
    assert module.entry.root.sharding == module.entry.parameters[0].sharding
    pass_named("spmd-partitioner").run(module)
    assert module.entry.root.shape.dims == (2, 3)
