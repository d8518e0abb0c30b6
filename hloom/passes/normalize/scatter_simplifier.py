"""A scatter of one window is a dynamic-update-slice of what its combiner makes of it.

A scatter drops a window that does not lie inside, a dynamic-update-slice moves it: where the start
is outside, what is written is what stood there.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes_where
from hloom.ir.traits import PLUMBING
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.expand.map_inliner import BY_ELEMENT, SAME_SCALAR, inlined
from hloom.passes.normalize.single_index import has_one_vector, starts
from hloom.passes.pass_ import register
from hloom.types.dtype import PRED

IN_BODY = opcodes_where(
    lambda op: op.name in BY_ELEMENT or op.name in SAME_SCALAR or PLUMBING in op.traits
)


@register
class ScatterSimplifier(Expander):
    """Write a scatter with one index vector as dynamic-slice and dynamic-update-slice."""

    name = "scatter-simplifier"
    opcodes = frozenset(["scatter"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        a, count = i.attrs, len(i.operands) // 2
        inputs, indices, updates = i.operands[:count], i.operands[count], i.operands[count + 1 :]
        if any(o.shape.is_dynamic or 0 in o.shape.dims for o in i.operands):
            return None
        if not has_one_vector(indices, a.index_vector_dim) or indices.shape.dtype.bits < 32:
            return None
        body = i.called[0]
        if any(j.opcode not in IN_BODY or not _is_scalar(j) for j in body.instructions):
            return None
        if any(x.shape.dtype is not u.shape.dtype for x, u in zip(inputs, updates, strict=True)):
            return None
        full = inputs[0].shape.dims
        sizes = self.window_sizes(i, updates[0])
        at = starts(b, indices, a.scatter_dims_to_operand_dims, len(full))
        inside = self.is_inside(b, at, a.scatter_dims_to_operand_dims, full, sizes)
        news = [b.reshaped(u, sizes) for u in updates]
        olds = [b.emit("dynamic-slice", x, *at, dynamic_slice_sizes=sizes) for x in inputs]
        inlined_root = inlined(b, i, body, [*olds, *news])
        parts = [b.element(inlined_root, k) for k in range(count)] if count > 1 else [inlined_root]
        results = []
        for x, old, part in zip(inputs, olds, parts, strict=True):
            selected = b.select(b.spread(inside, sizes), part, old)
            results.append(b.emit("dynamic-update-slice", x, selected, *at))
        return b.tuple(*results) if i.shape.is_tuple else results[0]

    def window_sizes(self, i: Instruction, update: Instruction) -> tuple[int, ...]:
        """The size of the window in each operand dimension."""
        a = i.attrs
        missing = {*a.inserted_window_dims, *a.input_batching_dims}
        window = iter(update.shape.dims[d] for d in a.update_window_dims)
        rank = i.operands[0].shape.rank
        return tuple(1 if d in missing else next(window) for d in range(rank))

    def is_inside(self, b: Expansion, at, index_map, full, sizes) -> Instruction:
        """pred[]: whether the window lies inside."""
        inside = b.scalar(True, PRED)
        for d in index_map:
            dtype = at[d].shape.dtype
            last = b.scalar(full[d] - sizes[d], dtype)
            inside = b.and_(inside, b.compared(at[d], last, "LE"))
            if dtype.is_signed_int:
                inside = b.and_(inside, b.compared(at[d], b.scalar(0, dtype), "GE"))
        return inside


def _is_scalar(j: Instruction) -> bool:
    return j.shape.is_scalar or j.opcode == "tuple"
