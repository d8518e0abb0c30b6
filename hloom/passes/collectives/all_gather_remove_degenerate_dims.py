"""All-gathers without dimensions of one element, which only stand in other passes' way."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import is_plain
from hloom.passes.collectives.moving import CollectiveMotion, CollectiveMove, again
from hloom.passes.expand.expansion import Expansion
from hloom.passes.pass_ import register
from hloom.types.shape import shape


@register
class AllGatherRemoveDegenerateDims(CollectiveMotion):
    """Drop dimensions of size 1 from all-gathers, but for the one that is gathered."""

    name = "all-gather-remove-degenerate-dims"
    opcodes = frozenset(["all-gather"])
    what = "dropped"

    def move(self, b: Expansion, i: Instruction) -> CollectiveMove | None:
        (x,) = i.operands if len(i.operands) == 1 else (None,)
        if x is None or not is_plain(i):
            return None
        (d,) = i.attrs.dimensions
        kept = [k for k, n in enumerate(i.shape.dims) if n != 1 or k == d]
        if len(kept) == i.shape.rank:
            return None
        inner = b.reshaped(x, [x.shape.dims[k] for k in kept])
        of = shape(i.shape.dtype, [i.shape.dims[k] for k in kept])
        new = again(b, i, inner, of, dimensions=(kept.index(d),))
        return CollectiveMove(i, b.reshaped(new, i.shape.dims), ())
