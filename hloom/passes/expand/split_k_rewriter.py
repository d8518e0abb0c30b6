"""Products of a long K and few results, as several products that threads can share.

The gradient of a layer's weights sums over all places of all images: the dot is small and its K is
huge. Cut by its results, every step would read much of both operands again, or there is only one
step. So K is cut: each part is a product of its own, and their sum is a small reduction.

    dot(x: [k, m], y: [k, n])  =>  reduce(dot(x: [s, k/s, m], y: [s, k/s, n]), over s)
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from hloom.analysis.fusible import is_row_major
from hloom.ir.instruction import Instruction
from hloom.passes.expand.dot_decomposer import canonical_dots
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.expand.tree_reduction_rewriter import COSTS, part_count
from hloom.passes.layout.layout_normalization import row_major_inside
from hloom.passes.pass_ import register
from hloom.types.shape import shape

LEAST_DEPTH = 4096
# At most so many vectors are multiplied by a matrix as fast as it is read.
MOST_VECTORS = 4
# With more rows and columns than these, cutting by them is as good.
MOST_NARROW, MOST_RESULTS = 64, 1 << 15


@register
class SplitKRewriter(Expander):
    """Cut the contracted dimension of dots that have few results."""

    name = "split-k-rewriter"
    needs = (canonical_dots, row_major_inside)
    opcodes = frozenset(["dot"])

    enough_steps: int = 8
    """So many parts are enough for all threads."""
    least_bytes: int = COSTS.parallel_bytes
    """Less is done before other threads have woken up."""

    def wants(self, i: Instruction) -> bool:
        return not i.parent.is_fusion  # of attention, which is one kernel already

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        a, of = i.attrs, i.shape.dtype
        x, y = i.operands
        if not all(map(_is_plain, (x, y, i))) or not of.is_floating or of.bits < 32:
            return None
        if len(a.lhs_contracting_dims) != 1 or i.has_control_edges:
            return None
        left, right = a.lhs_contracting_dims[0], a.rhs_contracting_dims[0]
        depth = x.shape.dims[left]
        rows, columns = x.shape.size // depth, y.shape.size // depth
        if prod([x.shape.dims[d] for d in a.lhs_batch_dims]) != 1:
            return None
        if min(rows, columns) > MOST_NARROW or rows * columns > MOST_RESULTS:
            return None
        large, along = max((x, left), (y, right), key=lambda pair: pair[0].shape.size)
        is_vector = min(rows, columns) <= MOST_VECTORS and along == large.shape.rank - 1
        if is_vector and max(rows, columns) >= 4 * self.enough_steps:
            return None  # the rows of the matrix are read whole, and there are enough of them
        if depth < LEAST_DEPTH or x.shape.size_bytes + y.shape.size_bytes < self.least_bytes:
            return None
        parts = part_count(depth, self.enough_steps)
        if parts is None or parts * rows * columns * 4 > x.shape.size + y.shape.size:
            return None
        cut = _cut(b, x, left, parts), _cut(b, y, right, parts)
        partial = b.like(i, *cut, shape=shape(of, (parts, *i.shape.dims)).with_default_layouts())
        partial.attrs = replace(
            a,
            lhs_contracting_dims=(left + 1,),
            rhs_contracting_dims=(right + 1,),
            lhs_batch_dims=(left, *_moved(a.lhs_batch_dims, left)),
            rhs_batch_dims=(right, *_moved(a.rhs_batch_dims, right)),
        )
        return b.total(partial, (0,))


def _is_plain(i: Instruction) -> bool:
    s = i.shape
    return s.is_array and s.is_static and s.has_layout and is_row_major(s) and s.size > 0


def _cut(b: Expansion, x: Instruction, at: int, parts: int) -> Instruction:
    dims = x.shape.dims
    return b.reshaped(x, [*dims[:at], parts, dims[at] // parts, *dims[at + 1 :]])


def _moved(dims: tuple[int, ...], at: int) -> tuple[int, ...]:
    """Numbers of dimensions after one before them has become two."""
    return tuple([d + 1 if d > at else d for d in dims])
