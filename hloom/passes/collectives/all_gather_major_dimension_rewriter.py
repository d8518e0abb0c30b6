"""All-gathers along the first dimension, where the parts of all devices lie one behind the other.

Along any other dimension what arrives has to be copied into rows; behind the gather that is a
transpose, which a fusion may do on the way.
"""

from __future__ import annotations

from math import prod

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import is_plain
from hloom.passes.collectives.moving import again
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.shape import shape


@register
class AllGatherMajorDimensionRewriter(Expander):
    """Replace all-gather(x) along an inner dimension by transpose(all-gather(x)) along a first."""

    name = "all-gather-major-dimension-rewriter"
    opcodes = frozenset(["all-gather"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        if not is_plain(i) or i.shape.size == 0:
            return None
        (x,), (d,) = i.operands, i.attrs.dimensions
        dims = x.shape.dims
        count = i.shape.dims[d] // dims[d]
        if prod(dims[:d]) == 1 or count == 1:
            return None  # it is along the first one
        rows = again(
            b, i, b.reshaped(x, (1, *dims)), shape(x.shape.dtype, (count, *dims)), dimensions=(0,)
        )
        order = [*range(1, d + 1), 0, *range(d + 1, len(dims) + 1)]
        return b.reshaped(b.transposed(rows, order), i.shape.dims)
