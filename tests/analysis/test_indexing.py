"""Index maps: what an instruction reads of its operands, checked against what numpy reads."""

import numpy as np
import pytest

from hloom.analysis.indexing import (
    SCALAR,
    Space,
    flat,
    is_in_order,
    is_opaque,
    merged,
    operand_maps,
    regrouped,
)
from hloom.interp import evaluate
from hloom.ir.text import parse_module


def entry(line, parameters):
    text = "HloModule m\nENTRY e {\n" + "\n".join(
        f"  p{k} = {s} parameter({k})" for k, s in enumerate(parameters)
    )
    return parse_module(f"{text}\n  ROOT r = {line}\n}}\n")


def identity(space, dims):
    return regrouped([(k, 1, n) for k, n in enumerate(space.sizes)], dims)


def read(map_, space, dims):
    """The flat index of an operand of these dims at every step of the space."""
    steps = np.indices(space.sizes)
    at = np.zeros(space.sizes, int)
    for expression, size in zip(map_, dims, strict=True):
        value = np.zeros(space.sizes, int)
        for k, stride, n in expression:
            value = value * n + steps[k] // stride % n
        at = at * size + value
    return at


@pytest.mark.parametrize(
    "line, dims",
    [
        ("s32[5,3,2] transpose(p0), dimensions={2,1,0}", "2,3,5"),
        ("s32[6,5] reshape(p0)", "2,3,5"),
        ("s32[2,15] reshape(p0)", "2,3,5"),
        ("s32[3,2,2,5] reshape(p0)", "6,10"),
        ("s32[1,6,1,10,1] reshape(p0)", "6,10"),
        ("s32[4,3,5] broadcast(p0), dimensions={1,2}", "3,5"),
        ("s32[3,4,5] broadcast(p0), dimensions={0,2}", "3,5"),
        ("s32[4,7] broadcast(p0), dimensions={}", ""),
        ("s32[2,3,5] negate(p0)", "2,3,5"),
        ("s32[6,5] bitcast(p0)", "2,3,5"),
    ],
)
def test_digits_are_what_the_interpreter_reads(line, dims):
    module = entry(line, [f"s32[{dims}]"])
    root = module.entry.root
    shape = root.operands[0].shape.dims
    space = Space(root.shape.dims)
    (map_,) = operand_maps(root, identity(space, root.shape.dims), space)
    assert not is_opaque(map_)
    x = np.arange(max(1, np.prod(shape, dtype=int)), dtype=np.int32).reshape(shape)
    want = np.asarray(evaluate(module, x).array).reshape(space.sizes)
    got = read(map_, space, shape)
    assert (abs(want) == got).all()


def test_a_reshape_there_and_back_is_the_same_map():
    space = Space((6, 10))
    m = identity(space, (6, 10))
    there = entry("s32[6,10] reshape(p0)", ["s32[2,3,10]"]).entry.root
    back = entry("s32[2,3,10] reshape(p0)", ["s32[6,10]"]).entry.root
    (middle,) = operand_maps(there, m, space)
    assert middle == (((0, 3, 2),), ((0, 1, 3),), ((1, 1, 10),))
    assert operand_maps(back, middle, space)[0] == m


def test_a_reshape_across_digits_is_opaque_and_the_same_twice():
    space = Space((4, 9))
    m = identity(space, (4, 9))
    r = entry("s32[4,9] reshape(p0)", ["s32[6,6]"]).entry.root
    (a,) = operand_maps(r, m, space)
    assert is_opaque(a)
    assert a == operand_maps(r, m, space)[0]


def test_slices_are_told_apart_by_what_they_take():
    space = Space((3,))
    m = identity(space, (3,))
    texts = ("[0:3]", "[1:4]", "[1:4]", "[0:6:2]")
    roots = [entry(f"s32[3] slice(p0), slice={{{t}}}", ["s32[6]"]).entry.root for t in texts]
    a, b, c, d = (operand_maps(r, m, space)[0] for r in roots)
    assert b == c
    assert len({a, b, d}) == 3
    assert space.evaluations(a) == 3


def test_how_often_a_value_is_evaluated():
    space = Space((8, 5, 7))
    row, column = ((0, 1, 8),), ((2, 1, 7),)
    assert space.evaluations((row,)) == 8
    assert space.evaluations((column,)) == 8 * 5 * 7
    assert space.evaluations(SCALAR) == 1
    joined = entry("s32[8,6] concatenate(p0, p1), dimensions={1}", ["s32[8,2]", "s32[8,4]"])
    root = joined.entry.root
    space = Space((8, 6))
    maps = operand_maps(root, identity(space, (8, 6)), space)
    assert [space.evaluations(m) for m in maps] == pytest.approx([16, 32])


def test_digits():
    assert merged([(0, 4, 2), (0, 1, 4)]) == ((0, 1, 8),)
    assert merged([(0, 1, 4), (0, 4, 2)]) == ((0, 1, 4), (0, 4, 2))
    assert regrouped([(0, 1, 6)], (4,)) is None
    assert regrouped([(0, 1, 6), (1, 1, 2)], (1, 12, 1)) == ((), ((0, 1, 6), (1, 1, 2)), ())
    assert flat((((0, 3, 2),), ((0, 1, 3),))) == ((0, 1, 6),)
    assert is_in_order((((0, 1, 2),), ((2, 1, 3),)))
    assert not is_in_order((((2, 1, 2),), ((0, 1, 3),)))


def test_opaque_atoms_know_what_they_depend_on():
    space = Space((4, 6))
    taken = space.opaque("f", (((0, 1, 4),),), 9)
    other = space.opaque("f", (((1, 1, 6),),), 9)
    assert taken != other
    assert space.innermost((taken,)) == 0
    assert space.innermost((taken, other)) == 1
    assert space.opaque("f", (((0, 1, 4),),), 1) == ()
