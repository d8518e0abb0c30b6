"""Operations on elements: operands and result are cut alike."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE
from hloom.passes.partition.assignment import Loops, by_factors, say_rebuildable
from hloom.passes.partition.partitioner import Walk, partitions
from hloom.passes.partition.value import TiledValue


@partitions(*sorted(opcodes(ELEMENTWISE)), "copy", "map")
def elementwise(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    if not i.shape.is_array:
        return walk.values[i.operands[0]]  # a copy of a tuple
    values = by_factors(walk, i, Loops.of(i))
    if i.opcode == "convert" and i.operands[0].shape.size_bytes < i.shape.size_bytes:
        say_rebuildable(walk, i, values, lambda _: True)
    return values
