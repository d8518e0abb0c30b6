"""Dots that mask a copy of all rows for each group, as loops over tiles of the groups' rows.

JAX writes `ragged_dot` so where a platform has none: x[g, m, k] = x[m, k] where start[g] <= m and
m < end[g], 0 elsewhere, contracted over groups and k with w[g, k, n]; and for the gradient of w a
batch of dots of two such arrays. That is groups times the work, most of it on zeros. Whatever the
starts and ends are, a row is in the groups that say so.

A product of 0 with an infinite or undefined number of a matrix that a row has nothing to do with is
left out: the row is what `ragged_dot` says, where the dot of masked rows would be undefined.
"""

from __future__ import annotations

from typing import NamedTuple

from hloom.ir.instruction import Instruction
from hloom.passes.expand.dot_decomposer import canonical_dots
from hloom.passes.expand.expansion import Expansion
from hloom.passes.expand.grouped_rows import (
    LEAST_TILE,
    MOST_ROWS,
    GroupedExpander,
    Runs,
    tiled_rows,
    tiled_terms,
)
from hloom.passes.expand.product_types import product_types
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import register
from hloom.types.dtype import S64

LEAST_GAIN = 2
"""Times as much work, at least, by masks: a loop's steps are not free."""
TURNED = {"GE": "LE", "GT": "LT", "LE": "GE", "LT": "GT"}


class _Masked(NamedTuple):
    """Rows of a matrix, copied for each group, 0 beyond the group's start and end."""

    matrix: Instruction
    starts: Instruction
    ends: Instruction
    group_axis: int
    row_axis: int

    def inner(self, axis: int) -> int:
        """The axis of the matrix that an axis of the copies is."""
        return axis - (axis > self.group_axis)


@register
class GroupedDotRewriter(GroupedExpander):
    """Write dots of rows masked by group as loops over tiles of the groups' rows."""

    name = "grouped-dot-rewriter"
    breaks = (canonical_dots, no_dead_code)
    opcodes = frozenset(["dot"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        x, y = i.operands
        if x.shape.rank != 3 or y.shape.rank != 3 or i.shape.is_dynamic:
            return None
        if 0 in (*x.shape.dims, *y.shape.dims) or i.shape.dtype.is_pred:
            return None
        result = self._rows(b, i) if not i.attrs.lhs_batch_dims else self._terms(b, i)
        return None if result is None else b.converted(result, i.shape.dtype)

    def _rows(self, b: Expansion, i: Instruction) -> Instruction | None:
        """Masked rows by the matrices of the groups, summed over the groups."""
        a, (x, y) = i.attrs, i.operands
        pairs = dict(zip(a.lhs_contracting_dims, a.rhs_contracting_dims))
        masked = _masked(x)
        if masked is None or len(pairs) != 2 or masked.group_axis not in pairs:
            return None
        [k] = [d for d in pairs if d != masked.group_axis]
        if k == masked.row_axis or not self._pays(masked):
            return None
        dtypes, dtype = product_types(x.shape.dtype, y.shape.dtype, i.shape.dtype)
        factors = b.converted(masked.matrix, dtypes), b.converted(y, dtypes)
        rows, depth = masked.inner(masked.row_axis), masked.inner(k)
        axes = rows, depth, pairs[masked.group_axis], pairs[k]
        return tiled_rows(b, i, factors, axes, _runs(b, masked), dtype, self.tile)

    def _terms(self, b: Expansion, i: Instruction) -> Instruction | None:
        """Two arrays of masked rows, contracted along the rows for each group."""
        a = i.attrs
        left, right = (_masked(x) for x in i.operands)
        if left is None or right is None or len(a.lhs_contracting_dims) != 1:
            return None
        numbers = (
            (left, a.lhs_batch_dims, a.lhs_contracting_dims),
            (right, a.rhs_batch_dims, a.rhs_contracting_dims),
        )
        for m, batch, contracting in numbers:
            if batch != (m.group_axis,) or contracting != (m.row_axis,):
                return None
        if not self._pays(left):
            return None
        x, y = i.operands
        dtypes, dtype = product_types(x.shape.dtype, y.shape.dtype, i.shape.dtype)
        factors = b.converted(left.matrix, dtypes), b.converted(right.matrix, dtypes)
        # A term counts where both have it.
        starts, ends = (
            (b.converted(one, S64), b.converted(two, S64))
            for one, two in ((left.starts, right.starts), (left.ends, right.ends))
        )
        both = left._replace(starts=b.maximum(*starts), ends=b.minimum(*ends))
        axes = left.inner(left.row_axis), right.inner(right.row_axis)
        return tiled_terms(b, i, factors, axes, _runs(b, both), dtype, self.tile)

    def _pays(self, m: _Masked) -> bool:
        groups = m.starts.shape.dims[0]
        rows = m.matrix.shape.dims[m.inner(m.row_axis)]
        if rows > MOST_ROWS:
            return False
        # No more groups than rows have any.
        in_tiles = rows + min(groups, rows) * min(LEAST_TILE, rows)
        return groups * rows >= LEAST_GAIN * in_tiles


def _runs(b: Expansion, m: _Masked) -> Runs:
    return Runs(b, m.starts, m.ends, m.matrix.shape.dims[m.inner(m.row_axis)])


def _masked(x: Instruction) -> _Masked | None:
    """What `x` masks, if that is what it does."""
    if x.opcode != "select" or x.operands[0].opcode != "and":
        return None
    condition, copies, zeros = x.operands
    if not _is_zero(zeros) or copies.opcode != "broadcast" or copies.operands[0].shape.rank != 2:
        return None
    first, second = (_bound(c) for c in condition.operands)
    if first is None or second is None or {first.is_end, second.is_end} != {False, True}:
        return None
    if (first.group_axis, first.row_axis) != (second.group_axis, second.row_axis):
        return None
    group, row = first.group_axis, first.row_axis
    if copies.attrs.dimensions != tuple([d for d in range(3) if d != group]) or group == row:
        return None
    start, end = (second, first) if first.is_end else (first, second)
    return _Masked(copies.operands[0], start.vector, end.vector, group, row)


class _Bound(NamedTuple):
    """`vector[group] <= row` or, for ends, `row < vector[group]`."""

    vector: Instruction
    is_end: bool
    group_axis: int
    row_axis: int


def _bound(compare: Instruction) -> _Bound | None:
    if compare.opcode != "compare" or not compare.operands[0].shape.dtype.is_integral:
        return None
    x, y = compare.operands
    direction = str(compare.attrs.direction)
    if _row_axis(x) is None:
        x, y, direction = y, x, TURNED.get(direction, "")
    row = _row_axis(x)
    # Now `x` counts the rows.
    if row is None or direction not in ("GE", "LT"):
        return None
    if y.opcode != "broadcast" or y.operands[0].shape.rank != 1:
        return None
    return _Bound(y.operands[0], direction == "LT", y.attrs.dimensions[0], row)


def _row_axis(x: Instruction) -> int | None:
    """The axis along which an array counts from 0, if it does."""
    if x.opcode == "iota":
        return x.attrs.iota_dimension if x.shape.rank == 3 else None
    if x.opcode == "broadcast" and x.operands[0].opcode == "iota":
        return x.attrs.dimensions[x.operands[0].attrs.iota_dimension]
    return None


def _is_zero(x: Instruction) -> bool:
    while x.opcode == "broadcast":
        x = x.operands[0]
    return (
        x.opcode == "constant" and not x.attrs.literal.is_elided and not x.attrs.literal.array.any()
    )
