"""Operations on elements: operands and result are cut alike."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE
from hloom.passes.partition.assignment import Loops, by_factors
from hloom.passes.partition.partitioner import Walk, partitions
from hloom.passes.partition.value import TiledValue


@partitions(*sorted(opcodes(ELEMENTWISE)), "copy", "map")
def elementwise(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    return by_factors(walk, i, Loops.of(i))
