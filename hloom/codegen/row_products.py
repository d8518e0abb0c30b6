"""Dots whose factors both follow memory along what they contract, with lanes along it.

A matrix by a vector (`a @ x`, or `x @ w.T`) reads each row of the matrix in order. With lanes along
the results every lane would read a row of its own, one element from each of many lines. Here lanes
go along the rows: several rows at once, whose sums are folded together at the end, or one row where
a single number is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.codegen.affine import Affine, constant, linear
from hloom.codegen.blocked_fold import blocked_loop, sum_restart
from hloom.codegen.elements import Elements, Index, Source, strides_of
from hloom.codegen.fold import ROW_VECTORS
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value
from hloom.types.dtype import DType, dtype


def accumulator_type(of: DType) -> DType:
    """The type in which products are summed: f32 for narrow floats."""
    if of.is_floating and of.bits < 32:
        return dtype("f32")
    return of


def multiply_add(e: Elements, x: Value, y: Value, total: Value) -> Value:
    """`total + x * y` in the shape of the total."""
    b = e.builder
    shape = total.shape
    x, y = b.broadcast(x, shape), b.broadcast(y, shape)
    if total.dtype.is_floating:
        return b.fma(x, y, total)
    if total.dtype.is_pred:
        return b.binary("or", total, b.binary("and", x, y))
    return b.binary("add", total, b.binary("multiply", x, y))


def contracts_rows(dot: Instruction, vector_bytes: int) -> bool:
    """Whether a dot contracts one dimension, of a vector at least, that is fastest in both of its
    operands, and its results do not follow memory in either of them."""
    a, of = dot.attrs, accumulator_type(dot.shape.dtype)
    if len(a.lhs_contracting_dims) != 1 or of.is_complex or of.is_pred:
        return False
    pairs = zip(dot.operands, (a.lhs_contracting_dims, a.rhs_contracting_dims))
    for x, [d] in pairs:
        if x.shape.dims[d] * of.size_bytes < vector_bytes or strides_of(x.shape)[d] != 1:
            return False
    return True


def row_product(
    e: Elements, dot: Instruction, indices: tuple[Index, Index], mask: Value | None
) -> Value | None:
    """The element, or the tile of elements, of such a dot whose operands are read at `indices`
    with 0 where they are contracted; None if the operands or lanes are not of this form."""
    vector_bytes = e.device.compute.vector_bytes
    sources = [e.sources.get(x) for x in dot.operands]
    if mask is not None or None in sources or not contracts_rows(dot, vector_bytes):
        return None
    offsets = [linear(index, source.strides) for index, source in zip(indices, sources) if source]
    lanes = [x.axes for x in offsets]
    if len(e.tile) > 1 or not all(x.is_strided for x in offsets) or all(lanes):
        return None
    if any(x.axes and x.coefficient(0) == 1 for x in offsets):
        return None  # results follow memory: lanes along them are better
    of = accumulator_type(dot.shape.dtype)
    vectors = 1 if any(lanes) else ROW_VECTORS
    [d] = dot.attrs.lhs_contracting_dims
    rows = _Rows(e, of, [x for x in sources if x], offsets)
    total = rows.summed(dot.operands[0].shape.dims[d], vector_bytes // of.size_bytes * vectors)
    return e.builder.convert(total, dot.shape.dtype)


class _Rows:
    """The sum of products of rows that begin at two offsets, one of which may vary by lanes."""

    def __init__(
        self, e: Elements, of: DType, sources: Sequence[Source], offsets: Sequence[Affine]
    ) -> None:
        self.e = e
        self.of = of
        self.buffers = [x.buffer for x in sources]
        self.offsets = offsets
        self.count = e.tile if any(x.axes for x in offsets) else ()

    def summed(self, extent: int, lanes: int) -> Value:
        """The sums over `extent` elements, in tiles of so many lanes and of what is left."""
        e, b = self.e, self.e.builder
        while lanes > extent:
            lanes //= 2
        saved, full = e.tile, extent - extent % lanes
        e.tile = (*self.count, lanes)
        zero = b.constant(self.of, 0, e.tile)
        [total] = blocked_loop(e, full, [zero], self._step, sum_restart(e, [zero]), lanes)
        total = b.reduce(total, len(self.count), "add")
        if full < extent:
            e.tile = (*self.count, extent - full)
            [rest] = self._step(constant(full), b.constant(self.of, 0, e.tile))
            total = b.binary("add", total, b.reduce(rest, len(self.count), "add"))
        e.tile = saved
        return total

    def _step(self, k: Affine, total: Value) -> Sequence[Value]:
        """A tile of products that begins at k, added to the total."""
        e = self.e
        axis = len(self.count)
        lane = e.indices.lane(axis, e.tile[axis], axis + 1)
        x, y = (
            e.builder.convert(e.load_at(buffer, offset.plus(k).plus(lane), None), self.of)
            for buffer, offset in zip(self.buffers, self.offsets)
        )
        return [multiply_add(e, x, y, total)]
