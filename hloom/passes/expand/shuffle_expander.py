"""shuffle as slices and concatenations: along each dimension the front moves behind the rest."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expander, Expansion, refuse
from hloom.passes.facts import without
from hloom.passes.pass_ import register


@register
class ShuffleExpander(Expander):
    """Write shuffle as concatenations of slices."""

    name = "shuffle-expander"
    gives = (without("shuffle"),)
    opcodes = frozenset(["shuffle"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        shuffled = i.operands[0]
        if any(shuffled.shape.dynamic[d] for d in i.attrs.dimensions if shuffled.shape.dynamic):
            rule = "what rotating a dimension of run-time size gives is not known"
            raise refuse(i, rule, "dynamic-shape")
        for axis, shift in zip(i.attrs.dimensions, i.attrs.shifts, strict=True):
            size = shuffled.shape.dims[axis]
            start = shift % size if size > 0 else 0
            if start:
                shuffled = b.joined(
                    [b.sliced(shuffled, axis, start, size), b.sliced(shuffled, axis, 0, start)],
                    axis,
                )
        return shuffled
