"""An all-reduce of what its devices have already: nothing needs to be sent.

The sum of n equal values is n times one of them; the greatest of them is each of them.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import IDEMPOTENT, reduction_of
from hloom.passes.collectives.replicated import OfReplicated
from hloom.passes.expand.expansion import Expansion
from hloom.passes.pass_ import register


@register
class AllReduceSimplifier(OfReplicated):
    """Replace all-reduces of values that are the same on all devices of a group."""

    name = "all-reduce-simplifier"
    opcode = "all-reduce"

    def alone(self, b: Expansion, i: Instruction, count: int) -> Instruction | None:
        reduction, (x,) = reduction_of(i), i.operands
        dtype = x.shape.dtype
        if reduction in IDEMPOTENT:
            return x
        if reduction != "add" or dtype.is_pred or dtype is not i.shape.dtype:
            return None
        if dtype.is_integral and count >= 1 << (dtype.bits - 1):
            return None  # the type has no such number
        return b.multiply(x, b.full(count, dtype, x.shape.dims))
