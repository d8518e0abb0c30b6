"""An all-gather of what its devices have already: copies, side by side."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.replicated import OfReplicated
from hloom.passes.expand.expansion import Expansion
from hloom.passes.pass_ import register


@register
class AllGatherSimplifier(OfReplicated):
    """Replace all-gathers of values that are the same on all devices of a group."""

    name = "all-gather-simplifier"
    opcode = "all-gather"

    def alone(self, b: Expansion, i: Instruction, count: int) -> Instruction | None:
        (x,), (d,) = i.operands, i.attrs.dimensions
        sizes = x.shape.dims
        kept = [k if k < d else k + 1 for k in range(len(sizes))]
        spread = b.spread(x, (*sizes[:d], count, *sizes[d:]), kept)
        return b.reshaped(spread, i.shape.dims)
