"""Operations on elements: operands and result are cut alike."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE
from hloom.passes.partition.assignment import Loops, by_factors, say_rebuildable
from hloom.passes.partition.loop_accumulators import linked
from hloom.passes.partition.partitioner import Walk, partitions
from hloom.passes.partition.value import TiledValue


@partitions(*sorted(opcodes(ELEMENTWISE)), "copy", "map")
def elementwise(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    if not i.shape.is_array:
        return walk.values[i.operands[0]]  # a copy of a tuple
    if (part := linked(walk, i)) is not None:
        return [part]
    values = by_factors(walk, i, Loops.of(i))
    if all(x.shape.rank == i.shape.rank for x in i.operands):
        say_rebuildable(walk, i, values)
    return values
