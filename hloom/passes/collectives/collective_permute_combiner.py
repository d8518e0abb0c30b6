"""Several small permutes along the same pairs as one."""

from __future__ import annotations

from collections.abc import Hashable

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.combining import Combiner
from hloom.passes.pass_ import register


@register
class CollectivePermuteCombiner(Combiner):
    """Combine collective-permutes with the same pairs; those in place stay."""

    name = "collective-permute-combiner"
    opcode = "collective-permute"

    combine_different_dtypes: bool = False
    """Let element types in one permute differ."""

    def key(self, i: Instruction) -> Hashable:
        if i.attrs.slice_sizes:
            return i
        types = frozenset(x.shape.dtype for x in i.operands)
        return (
            None if self.combine_different_dtypes else types,
            frozenset(i.attrs.source_target_pairs),
        )
