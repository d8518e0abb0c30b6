"""What is reduced and then widened to be added up is widened before it is reduced.

A sum of bf16 gradients that a loop adds to an accumulator of f32 is, in f32 already, one that
`while-loop-all-reduce-code-motion` moves behind the loop; each step's would be more bytes.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import is_plain, reduction_of, sole_reader, widens
from hloom.passes.collectives.moving import CollectiveMotion, CollectiveMove
from hloom.passes.expand.expansion import Expansion
from hloom.passes.pass_ import register
from hloom.types.shape import shape


@register
class ReorderConvertReduceAdd(CollectiveMotion):
    """Replace a + convert(all-reduce(x)) by a + all-reduce(convert(x))."""

    name = "reorder-convert-reduce-add"
    opcodes = frozenset(["convert"])
    what = "reordered"

    enable_reduce_scatter: bool = False
    """Reorder reduce-scatters too."""

    def move(self, b: Expansion, i: Instruction) -> CollectiveMove | None:
        x, reader = i.operands[0], sole_reader(i)
        kinds = ("all-reduce", "reduce-scatter") if self.enable_reduce_scatter else ("all-reduce",)
        if x.opcode not in kinds or not is_plain(x) or sole_reader(x) is not i:
            return None
        if reader is None or reader.opcode != "add" or reduction_of(x) != "add":
            return None
        dtype = i.shape.dtype
        if i.has_control_edges or dtype is x.shape.dtype or not widens(x.shape, i.shape):
            return None
        wide = b.converted(x.operands[0], dtype)
        attributes = {f.name: getattr(x.attrs, f.name) for f in x.op.fields}
        called = (b.combiner("add", dtype),)
        of = shape(dtype, i.shape.dims)
        new = b.emit(x.opcode, wide, called=called, shape=of, **attributes)
        new.metadata, new.frontend_attributes = x.metadata, x.frontend_attributes
        new.backend_config = x.backend_config
        return CollectiveMove(i, new, [x])
