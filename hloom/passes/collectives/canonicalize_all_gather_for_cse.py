"""Reshapes behind all-gathers instead of before them, so that gathers of one array are one.

The opposite of `collective-transformation-reorder`: two readers that want an array gathered in
different forms gather the same thing, which common subexpressions then share.
"""

from __future__ import annotations

from math import prod

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import is_plain
from hloom.passes.collectives.moving import CollectiveMotion, CollectiveMove, again
from hloom.passes.expand.expansion import Expansion
from hloom.passes.pass_ import register
from hloom.types.shape import shape


@register
class CanonicalizeAllGatherForCSE(CollectiveMotion):
    """Replace all-gather(reshape(x)) by reshape(all-gather(x))."""

    name = "canonicalize-all-gather-for-cse"
    opcodes = frozenset(["all-gather"])
    what = "reordered"

    def move(self, b: Expansion, i: Instruction) -> CollectiveMove | None:
        x = i.operands[0]
        if x.opcode != "reshape" or not is_plain(i) or x.has_control_edges or not x.shape.size:
            return None
        (y,), (d,) = x.operands, i.attrs.dimensions
        dims, outer = y.shape.dims, prod(x.shape.dims[:d])
        # The parts of all devices stand one behind the other in rows of one length; of dimensions
        # of size 1 the one that has elements is taken, as it is the same in any form.
        starts = [e for e in range(len(dims)) if prod(dims[:e]) == outer]
        if not starts or y.shape.is_dynamic:
            return None
        e = starts[-1]
        count = i.shape.dims[d] // x.shape.dims[d]
        whole = (*dims[:e], dims[e] * count, *dims[e + 1 :])
        new = again(b, i, y, shape(i.shape.dtype, whole), dimensions=(e,))
        return CollectiveMove(i, b.reshaped(new, i.shape.dims), [x])
