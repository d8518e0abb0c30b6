"""A sum of reduce-scatters as the reduce-scatter of a sum."""

from __future__ import annotations

from collections.abc import Hashable

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.reassociation import Reassociation
from hloom.passes.pass_ import register


@register
class ReduceScatterReassociate(Reassociation):
    """Replace op(reduce-scatter(x), reduce-scatter(y)) by reduce-scatter(op(x, y))."""

    name = "reduce-scatter-reassociate"
    opcode = "reduce-scatter"

    def key(self, i: Instruction) -> Hashable:
        return (super().key(i), i.attrs.dimensions)
