"""Several small all-gathers as one."""

from __future__ import annotations

from collections.abc import Hashable

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.combining import Combiner
from hloom.passes.collectives.groups import group_key
from hloom.passes.pass_ import register


@register
class AllGatherCombiner(Combiner):
    """Combine all-gathers along the same dimension among the same devices."""

    name = "all-gather-combiner"
    opcode = "all-gather"

    combine_different_dtypes: bool = False
    """Let element types in one all-gather differ."""

    def key(self, i: Instruction) -> Hashable:
        types = frozenset(x.shape.dtype for x in i.operands)
        return (
            None if self.combine_different_dtypes else types,
            group_key(i),
            i.attrs.dimensions,
        )
