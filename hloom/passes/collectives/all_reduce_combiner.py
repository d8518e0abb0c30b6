"""Several small all-reduces as one: each has a price of its own, however little it carries."""

from __future__ import annotations

from collections.abc import Hashable

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.combining import Combiner
from hloom.passes.collectives.groups import group_key, reduction_key
from hloom.passes.pass_ import register


@register
class AllReduceCombiner(Combiner):
    """Combine all-reduces among the same devices by the same reduction.

    Of one element type, as the computation that reduces has one.
    """

    name = "all-reduce-combiner"
    opcode = "all-reduce"

    def key(self, i: Instruction) -> Hashable:
        types = frozenset(x.shape.dtype for x in i.operands)
        return (types, group_key(i), reduction_key(i), i.attrs.mode)
