"""An operation by element on several gathered arrays as one all-gather of the operation."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import devices_of, group_key, is_plain
from hloom.passes.collectives.moving import (
    BY_ELEMENT,
    CollectiveMotion,
    CollectiveMove,
    again,
    is_one_number,
)
from hloom.passes.expand.expansion import Expansion
from hloom.passes.pass_ import register
from hloom.types.shape import shape


@register
class AllGatherOptimizer(CollectiveMotion):
    """Replace op(all-gather(x), all-gather(y)) by all-gather(op(x, y))."""

    name = "all-gather-optimizer"
    opcodes = BY_ELEMENT
    what = "joined"

    def move(self, b: Expansion, i: Instruction) -> CollectiveMove | None:
        gathers = list(dict.fromkeys(x for x in i.operands if x.opcode == "all-gather"))
        if len(gathers) < 2 or i.has_control_edges or not i.shape.is_array:
            return None
        first = gathers[0]
        groups = devices_of(first)
        if groups is None or any(set(x.users) != {i} or x.is_root for x in gathers):
            return None
        if any(not is_plain(x) or _key(x) != _key(first) for x in gathers):
            return None
        if any(x not in gathers and not is_one_number(x, groups) for x in i.operands):
            return None
        dims = first.operands[0].shape.dims
        operands = []
        for x in i.operands:
            if x in gathers:
                operands.append(x.operands[0])
            else:
                operands.append(x if x.shape.rank == 0 else b.spread(x.operands[0], dims))
        attributes = {f.name: getattr(i.attrs, f.name) for f in i.op.fields}
        inside = b.emit(i.opcode, *operands, shape=shape(i.shape.dtype, dims), **attributes)
        new = again(b, first, inside, shape(i.shape.dtype, i.shape.dims))
        return CollectiveMove(i, new, gathers)


def _key(i: Instruction):
    return (group_key(i), i.attrs.dimensions, i.operands[0].shape.dims, i.backend_config)
