"""Ragged all-to-alls in one form: offsets and sizes are one row of s64 each.

They come as rows or as one row for each device, of any whole numbers; what reads them afterwards
has one case.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.ragged_all_to_all_decomposer import flat_counts
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.dtype import S64


@register
class RaggedAllToAllCanonicalizer(Expander):
    """Write the offsets and sizes of ragged all-to-alls as rows of s64."""

    name = "ragged-all-to-all-canonicalizer"
    opcodes = frozenset(["ragged-all-to-all"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        numbers = i.operands[2:]
        if all(n.shape.rank == 1 and n.shape.dtype is S64 for n in numbers):
            return None
        rows = [flat_counts(b, n) for n in numbers]
        return b.emit(
            "ragged-all-to-all",
            *i.operands[:2],
            *rows,
            shape=i.shape,
            channel_id=i.attrs.channel_id,
            replica_groups=i.attrs.replica_groups,
            dimensions=i.attrs.dimensions,
        )
