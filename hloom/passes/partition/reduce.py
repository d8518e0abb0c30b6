"""Reductions: each device folds what it has; known folds are put together by an all-reduce, others
by gathering the results and folding once more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloom.base.diagnostics import HloError
from hloom.interp import evaluate
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ASSOCIATIVE
from hloom.passes.partition.assignment import Chosen, Loops, by_factors
from hloom.passes.partition.partitioner import Walk, partitions
from hloom.passes.partition.reshard import neutral_number
from hloom.passes.partition.value import TiledValue
from hloom.types.dtype import S32

FOLDS = opcodes(ASSOCIATIVE) - {"xor"}
"""What an all-reduce can do."""


def fold_of(c: Computation) -> str | None:
    """The operation of a computation that folds two scalars by one that all-reduces know."""
    root = c.root
    if root.opcode not in FOLDS or len(root.operands) != 2 or root.shape.dtype.is_complex:
        return None
    return root.opcode if set(root.operands) == set(c.parameters) else None


@partitions("reduce")
def reduce(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    n = len(i.operands) // 2
    f = Loops.of(i)
    opcode = fold_of(i.called[0]) if n == 1 else None
    if opcode is not None:
        f.reduction = opcode
    elif is_idempotent(i):
        f.reduction = ""
    else:
        f.whole |= f.reduced

    def emit(parts: list[Instruction], chosen: Chosen) -> Sequence[Instruction]:
        if not any(chosen.axes.get(k) for k in f.reduced):
            part = walk.b.emit_like(i, parts, walk.local_shape(i.shape, chosen.results))
            return _elements(walk, part)
        if opcode is not None:
            return [_partial(walk, i, parts, chosen, opcode)]
        return _folded_again(walk, i, parts, chosen)

    return by_factors(walk, i, f, emit)


def _elements(walk: Walk, x: Instruction) -> list[Instruction]:
    if not x.shape.is_tuple:
        return [x]
    return [walk.b.element(x, k) for k in range(len(x.shape.elements))]


def _partial(
    walk: Walk, i: Instruction, parts: list[Instruction], chosen: Chosen, opcode: str
) -> Instruction:
    """The fold of a device's part; the initial value counts on the first device only."""
    b, of = walk.b, i.operands[0].shape
    neutral = b.scalar(neutral_number(opcode, of.dtype), of.dtype)
    x = b.masked(parts[0], of, chosen.operands[0], i.attrs.dimensions, neutral)
    axes = chosen.results[0].partial
    first = b.of_device([int(k == 0) for k in walk.mesh.indices(axes)])
    here = b.compared(first, b.scalar(1, S32), "EQ")
    initial = b.select(here, parts[1], neutral)
    return b.emit_like(i, [x, initial], walk.local_shape(i.shape, chosen.results))


def _folded_again(
    walk: Walk, i: Instruction, parts: list[Instruction], chosen: Chosen
) -> list[Instruction]:
    """Results of all devices one behind the other, folded: the initial values count often, and
    folding them with themselves changes nothing."""
    b, n = walk.b, len(parts) // 2
    of = i.operands[0].shape
    inputs, initial = parts[:n], parts[n:]
    masked = [
        b.masked(x, of, t, i.attrs.dimensions, v)
        for x, t, v in zip(inputs, chosen.operands, initial)
    ]
    local = walk.local_shape(i.shape, chosen.results)
    once = _elements(walk, b.emit_like(i, [*masked, *initial], local))
    axes = tuple([a for d in i.attrs.dimensions for a in chosen.operands[0].dims[d]])
    rows = [b.all_gather(b.reshaped(x, (1, *x.shape.dims)), 0, axes) for x in once]
    again = b.emit_like(i, [*rows, *initial], local, dimensions=(0,))
    return _elements(walk, again)


def is_idempotent(i: Instruction) -> bool:
    """Whether the initial values are constants that give themselves when folded together."""
    n = len(i.operands) // 2
    values = []
    for x in i.operands[n:]:
        if x.opcode != "constant" or x.attrs.literal is None:
            return False
        values.append(np.asarray(x.attrs.literal.array))
    try:
        twice = evaluate(i.called[0], *values, *values)
    except HloError:
        return False
    leaves = twice.elements if twice.is_tuple else [twice]
    return all(np.array_equal(np.asarray(a.array), v) for a, v in zip(leaves, values))
