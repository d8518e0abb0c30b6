"""An all-gather of what each device repeats: what is repeated is gathered, and repeated then."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import devices_of, group_size, is_plain
from hloom.passes.collectives.moving import CollectiveMotion, CollectiveMove, again
from hloom.passes.expand.expansion import Expansion
from hloom.passes.pass_ import register
from hloom.types.shape import shape


@register
class AllGatherBroadcastReorder(CollectiveMotion):
    """Replace all-gather(broadcast(x)) by broadcast(all-gather(x))."""

    name = "all-gather-broadcast-reorder"
    opcodes = frozenset(["all-gather"])
    what = "reordered"

    def move(self, b: Expansion, i: Instruction) -> CollectiveMove | None:
        x = i.operands[0]
        groups = devices_of(i)
        count = group_size(groups) if groups is not None else None
        if x.opcode != "broadcast" or x.has_control_edges or not is_plain(i) or count is None:
            return None
        (y,), (d,), at = x.operands, i.attrs.dimensions, x.attrs.dimensions
        if y.shape.size >= x.shape.size:
            return None
        dims, dtype = y.shape.dims, y.shape.dtype
        if d in at:
            k = at.index(d)
            whole = tuple([n * count if j == k else n for j, n in enumerate(dims)])
            gathered = again(b, i, y, shape(dtype, whole), dimensions=(k,))
            return CollectiveMove(i, b.spread(gathered, i.shape.dims, at), ())
        rows = again(b, i, b.reshaped(y, (1, *dims)), shape(dtype, (count, *dims)), dimensions=(0,))
        sizes = x.shape.dims
        moved = [d, *[k if k < d else k + 1 for k in at]]
        spread = b.spread(rows, (*sizes[:d], count, *sizes[d:]), moved)
        return CollectiveMove(i, b.reshaped(spread, i.shape.dims), ())
