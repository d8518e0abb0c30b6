"""Calls and copies in halves: done at their start, where there is no region that keeps them."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.passes.partition.partitioner import Walk, as_it_is, nothing_cut, partitions, refused
from hloom.passes.partition.value import TiledValue
from hloom.types.shape import Shape


def _is_kept(walk: Walk) -> bool:
    return walk.region == set(walk.mesh.axes)


@partitions("async-start")
def async_start(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    """(operands, result, ...)."""
    if _is_kept(walk):
        return as_it_is(walk, i)
    values = [v for x in i.operands for v in walk.values[x]]
    values += walk.inlined(i.called[0], [walk.values[x] for x in i.operands])
    rest = list(i.shape.leaves())[len(values) :]
    return [*values, *[_context(walk, i, s) for s in rest]]


def _context(walk: Walk, i: Instruction, s: Shape) -> TiledValue:
    if not s.is_array:
        raise refused(i, "its context is not an array")
    zero = walk.b.spread(walk.b.zero(s.dtype), s.dims)
    return walk.result(s, nothing_cut(s), zero)


@partitions("async-update")
def async_update(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    return as_it_is(walk, i) if _is_kept(walk) else walk.values[i.operands[0]]


@partitions("async-done", "copy-done")
def done(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    """Element 1 of a call's start, element 0 of a copy's."""
    if _is_kept(walk):
        return as_it_is(walk, i)
    of = i.operands[0].shape
    first = of.elements[0].leaf_count if i.opcode == "async-done" else 0
    values = walk.values[i.operands[0]][first : first + i.shape.leaf_count]
    return [v.seen(w) for v, w in zip(values, walk.wanted(i), strict=True)]


@partitions("copy-start")
def copy_start(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    """(target, source, context)."""
    if _is_kept(walk):
        return as_it_is(walk, i)
    values = walk.values[i.operands[0]]
    context = [_context(walk, i, s) for s in list(i.shape.leaves())[2 * len(values) :]]
    return [*values, *values, *context]
