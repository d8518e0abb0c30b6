"""Transposes before the reductions of a loop instead of after them, where they are in the way of
`while-loop-all-reduce-code-motion`."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import is_plain, sole_reader
from hloom.passes.collectives.loop_results import loops_of
from hloom.passes.collectives.moving import CollectiveMotion, CollectiveMove, again
from hloom.passes.expand.expansion import Expansion
from hloom.passes.pass_ import register
from hloom.types.shape import shape


@register
class ReorderReduceTranspose(CollectiveMotion):
    """Replace transpose(reduce-scatter(x)) in loops by reduce-scatter(transpose(x)), and so for
    all-reduce."""

    name = "reorder-reduce-transpose"
    opcodes = frozenset(["transpose"])
    what = "reordered"

    def move(self, b: Expansion, i: Instruction) -> CollectiveMove | None:
        x = i.operands[0]
        if x.opcode not in ("reduce-scatter", "all-reduce") or not loops_of(i.parent):
            return None
        if not is_plain(x) or sole_reader(x) is not i or i.has_control_edges:
            return None
        order = i.attrs.dimensions
        inner = b.transposed(x.operands[0], order)
        new = {}
        if x.opcode == "reduce-scatter":
            new["dimensions"] = (order.index(x.attrs.dimensions[0]),)
        return CollectiveMove(i, again(b, x, inner, shape(i.shape.dtype, i.shape.dims), **new), [x])
