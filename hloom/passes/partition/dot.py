"""Contractions: cut along batch and free dimensions, or summed over contracting ones."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.passes.partition.assignment import Chosen, Loops, by_factors
from hloom.passes.partition.partitioner import Walk, partitions
from hloom.passes.partition.value import TiledValue


@partitions("dot", "ragged-dot")
def dot(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    a, f = i.attrs, Loops.of(i)
    if i.shape.dtype.is_pred:
        f.whole |= f.reduced

    def emit(parts: list[Instruction], chosen: Chosen) -> list[Instruction]:
        sides = (a.lhs_contracting_dims, a.rhs_contracting_dims)
        for k, dims in enumerate(sides):
            zero = walk.b.zero(parts[k].shape.dtype)
            of = i.operands[k].shape
            parts[k] = walk.b.masked(parts[k], of, chosen.operands[k], dims, zero)
        return [walk.b.emit_like(i, parts, walk.local_shape(i.shape, chosen.results))]

    return by_factors(walk, i, f, emit)
