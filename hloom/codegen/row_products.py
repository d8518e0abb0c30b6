"""Dots whose factors both follow memory along what they contract, with lanes along it.

A matrix by a vector (`a @ x`, or `x @ w.T`) reads each row of the matrix in order. With lanes along
the results every lane would read a row of its own, one element from each of many lines. Here lanes
go along the rows: several rows at once, whose sums are folded together at the end, or one row where
a single number is asked for; its factors may then be computed, not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hloom.codegen.affine import Affine, constant, linear
from hloom.codegen.blocked_fold import blocked_loop, sum_restart
from hloom.codegen.elements import Elements, Index, strides_of
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
    if mask is not None or not contracts_rows(dot, vector_bytes):
        return None
    [d], [f] = dot.attrs.lhs_contracting_dims, dot.attrs.rhs_contracting_dims
    rows = [_Row(*x) for x in zip(dot.operands, (d, f), indices)]
    lanes = [any(x.axes for x in row.index) for row in rows]
    if any(lanes) and not _are_read_across(e, rows, lanes):
        return None
    of = accumulator_type(dot.shape.dtype)
    vectors = 1 if any(lanes) else ROW_VECTORS
    total = _Rows(e, of, rows, e.tile if any(lanes) else ()).summed(
        dot.operands[0].shape.dims[d], vector_bytes // of.size_bytes * vectors
    )
    return e.builder.convert(total, dot.shape.dtype)


def sums_alone(dot: Instruction, vector_bytes: int, is_read: Sequence[bool]) -> bool:
    """Whether each result of such a dot is best summed for itself: a vector along the results
    would go over rows of both factors, or over values of a factor that is not read but computed."""
    if not contracts_rows(dot, vector_bytes):
        return False
    order, dims = dot.shape.layout, dot.shape.dims
    minor = next((d for d in (order.minor_to_major if order else range(len(dims))[::-1])), 0)
    solid = [n for n in dims if n != 1]
    size = accumulator_type(dot.shape.dtype).size_bytes
    if solid and dims[minor] == 1:
        minor = max(d for d, n in enumerate(dims) if n != 1)
    is_narrow = not solid or dims[minor] * size < vector_bytes
    return is_narrow and (len(solid) > 1 or not all(is_read))


class _Row(NamedTuple):
    """A factor, the dimension that is contracted, and where its row begins."""

    factor: Instruction
    contracted: int
    index: Index


def _are_read_across(e: Elements, rows: Sequence[_Row], lanes: Sequence[bool]) -> bool:
    """Whether lanes go over rows of one factor, which is read from memory."""
    if len(e.tile) > 1 or all(lanes):
        return False
    [across] = [row for row, has_lanes in zip(rows, lanes) if has_lanes]
    source = e.sources.get(across.factor)
    if source is None:
        return False
    offset = linear(across.index, source.strides)
    # Lanes along results that follow memory are better.
    return offset.is_strided and (not offset.axes or offset.coefficient(0) != 1)


class _Rows:
    """The sum of products of two rows, or of `count` rows of one factor with one of the other."""

    def __init__(
        self, e: Elements, of: DType, rows: Sequence[_Row], count: tuple[int, ...]
    ) -> None:
        self.e = e
        self.of = of
        self.rows = rows
        self.count = count

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
        factors: list[Value] = []
        for factor, d, index in self.rows:
            at = (*index[:d], k.plus(lane), *index[d + 1 :])
            source = e.sources.get(factor)
            if source is None:
                value = e.value(factor, at)
            else:
                value = e.load_at(source.buffer, linear(at, source.strides), None)
            factors.append(e.builder.convert(value, self.of))
        x, y = factors
        return [multiply_add(e, x, y, total)]
