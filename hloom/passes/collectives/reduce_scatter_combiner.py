"""Several small reduce-scatters as one."""

from __future__ import annotations

from collections.abc import Hashable

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.combining import Combiner
from hloom.passes.collectives.groups import group_key, reduction_key
from hloom.passes.pass_ import register


@register
class ReduceScatterCombiner(Combiner):
    """Combine reduce-scatters along the same dimension among the same devices, by the same
    reduction, of one element type."""

    name = "reduce-scatter-combiner"
    opcode = "reduce-scatter"

    def key(self, i: Instruction) -> Hashable:
        types = frozenset(x.shape.dtype for x in i.operands)
        return (types, group_key(i), reduction_key(i), i.attrs.dimensions, i.attrs.mode)
