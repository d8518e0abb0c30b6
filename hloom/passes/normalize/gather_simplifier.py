"""A gather of one slice is a dynamic-slice: both clamp their starts so that it lies inside."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.normalize.single_index import has_one_vector, starts
from hloom.passes.pass_ import register


@register
class GatherSimplifier(Expander):
    """Write a gather with one index vector as dynamic-slice; one of whole operands as broadcast."""

    name = "gather-simplifier"
    opcodes = frozenset(["gather"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        x, indices = i.operands
        a = i.attrs
        if i.shape.is_dynamic or x.shape.is_dynamic or indices.shape.is_dynamic:
            return None
        if 0 in x.shape.dims or 0 in i.shape.dims:
            return None
        if not has_one_vector(indices, a.index_vector_dim):
            return None
        at = starts(b, indices, a.start_index_map, x.shape.rank)
        part = b.emit("dynamic-slice", x, *at, dynamic_slice_sizes=tuple(a.slice_sizes))
        # Batch dimensions have size 1, so the window's dimensions are in the result's order.
        return b.reshaped(part, i.shape.dims)
