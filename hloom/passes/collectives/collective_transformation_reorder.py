"""Reshapes before the collective instead of after it, where they concern smaller arrays."""

from __future__ import annotations

from math import prod

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import is_plain, sole_reader
from hloom.passes.collectives.moving import CollectiveMotion, CollectiveMove, again
from hloom.passes.expand.expansion import Expansion
from hloom.passes.pass_ import register
from hloom.types.shape import shape


@register
class CollectiveTransformationReorder(CollectiveMotion):
    """Replace reshape(all-gather(x)) by all-gather(reshape(x)), and so for all-reduce."""

    name = "collective-transformation-reorder"
    opcodes = frozenset(["reshape"])
    what = "reordered"

    def move(self, b: Expansion, i: Instruction) -> CollectiveMove | None:
        x = i.operands[0]
        if x.opcode not in ("all-gather", "all-reduce") or i.has_control_edges:
            return None
        if not is_plain(x) or sole_reader(x) is not i or i.shape.size == 0:
            return None
        dims, (y,) = i.shape.dims, x.operands
        of = shape(i.shape.dtype, dims)
        if x.opcode == "all-reduce":
            return CollectiveMove(i, again(b, x, b.reshaped(y, dims), of), [x])
        (d,) = x.attrs.dimensions
        count = x.shape.dims[d] // y.shape.dims[d]
        outer = prod(x.shape.dims[:d])
        for e, n in enumerate(dims):
            # The parts of all devices stand one behind the other in rows of one length.
            if prod(dims[:e]) == outer and n % count == 0:
                inner = b.reshaped(y, (*dims[:e], n // count, *dims[e + 1 :]))
                return CollectiveMove(i, again(b, x, inner, of, dimensions=(e,)), [x])
        return None
