"""All-reduces of several arrays as one of a single array, in which they lie one behind the other.

A combined all-reduce sends each of its arrays as a message of its own; laid side by side they are
one, for the price of a copy in and out.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.combining import is_combinable
from hloom.passes.collectives.moving import again
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.shape import shape


@register
class AllReduceContiguous(Expander):
    """Replace all-reduce(x, y, ...) by slices of all-reduce(concatenate(x, y, ...))."""

    name = "all-reduce-contiguous"
    opcodes = frozenset(["all-reduce"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        dtypes = {x.shape.dtype for x in i.operands}
        if len(i.operands) < 2 or len(dtypes) != 1 or not is_combinable(i):
            return None
        if any(of.dtype not in dtypes for of in i.shape.elements):
            return None
        rows = [b.reshaped(x, (x.shape.size,)) for x in i.operands]
        row = b.joined(rows, 0)
        total = again(b, i, row, shape(row.shape.dtype, row.shape.dims))
        parts, start = [], 0
        for x in i.operands:
            part = b.sliced(total, 0, start, start + x.shape.size)
            parts.append(b.reshaped(part, x.shape.dims))
            start += x.shape.size
        return b.emit("tuple", *parts)
