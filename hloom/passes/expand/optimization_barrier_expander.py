"""Optimization barriers, when nothing is left to be optimised: their operands."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.facts import without
from hloom.passes.pass_ import register


@register
class OptimizationBarrierExpander(Expander):
    """Remove opt-barrier and domain operations; nothing may move across them before this."""

    name = "optimization-barrier-expander"
    gives = (without("opt-barrier", "domain"),)
    opcodes = frozenset(["opt-barrier", "domain"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        x = i.operands[0]
        if x.opcode == "tuple":  # a tuple of its own, so that its elements are read directly
            return b.tuple(*x.operands)
        return x
