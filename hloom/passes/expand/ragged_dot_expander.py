"""ragged-dot as dots of tiles in a loop, so that work follows the sizes of the groups.

Rows (or, in the contracting mode, terms) are cut into tiles of at most `tile` rows, no tile
across two groups. A loop runs over all tiles, as many as the run-time sizes need and none for an
empty group: tile number t belongs to the group with so many tiles before it (counts summed up and
compared with t). A tile reads a fixed number of rows; those of another group are masked. This is
(rows + groups * tile) products of rows instead of rows * groups.

What does not fit two matrices (batch dimensions, several free ones) is one masked dot for each
group; a ragged batch dimension changes nothing, and gives a plain dot.
"""

from __future__ import annotations

from hloom.ir.infer.dot import group_prefix
from hloom.ir.instruction import Instruction
from hloom.passes.expand.dot_decomposer import canonical_dots
from hloom.passes.expand.expansion import Expander, Expansion, refuse
from hloom.passes.expand.loops import counted_loop, rows_from, with_rows
from hloom.passes.expand.product_types import product_types
from hloom.passes.facts import no_dead_code, without
from hloom.passes.pass_ import register
from hloom.types.dtype import S32, S64
from hloom.types.shape import shape

Dims = tuple[int, ...]


def plain_dot(b: Expansion, i: Instruction, x, y, numbers: tuple[Dims, Dims, Dims, Dims], dtype):
    """A dot with (lhs batch, lhs contracting, rhs batch, rhs contracting) dimensions."""
    lhs_batch, lhs_contracting, rhs_batch, rhs_contracting = numbers
    dot = b.emit(
        "dot",
        x,
        y,
        lhs_batch_dims=lhs_batch,
        rhs_batch_dims=rhs_batch,
        lhs_contracting_dims=lhs_contracting,
        rhs_contracting_dims=rhs_contracting,
        operand_precision=i.attrs.operand_precision,
    )
    dot.shape = shape(dtype, dot.shape.dims).with_default_layouts()
    return dot


class _Runs:
    """Where each group begins and ends along the ragged dimension: s32[prefix..., groups]."""

    def __init__(self, b: Expansion, sizes: Instruction, rows: int) -> None:
        self.b, self.rows = b, rows
        self.dims = sizes.shape.dims
        self.count = self.dims[-1]
        wide = b.converted(sizes, S64)
        limit = b.full(rows, S64, self.dims)
        ends = b.minimum(self.running(wide), limit)
        starts = b.minimum(b.subtract(self.running(wide), wide), limit)
        self.ends, self.starts = b.converted(ends, S32), b.converted(starts, S32)

    def running(self, x: Instruction) -> Instruction:
        """Sums of the elements up to each, along a short last dimension: by comparing positions."""
        b, last = self.b, len(x.shape.dims) - 1
        square = (*x.shape.dims, self.count)
        upto = b.compared(b.iota(S32, square, last), b.iota(S32, square, last + 1), "LE")
        spread = b.spread(x, square, tuple(range(last + 1)))
        return b.total(b.select(upto, spread, b.full(0, x.shape.dtype, square)), (last,))

    def mask(self, group: int, dims: Dims, axis: int, prefix: Dims) -> Instruction:
        """Which positions along `axis` are in the run of a group; `prefix` are the dimensions
        that the leading ones of the sizes stand for."""
        b, last = self.b, len(self.dims) - 1
        position = b.iota(S32, dims, axis)
        order = sorted(range(last), key=prefix.__getitem__)
        start, end = (
            b.spread(
                b.transposed(
                    b.reshaped(b.sliced(v, last, group, group + 1), self.dims[:-1]), order
                ),
                dims,
                sorted(prefix[:last]),
            )
            for v in (self.starts, self.ends)
        )
        return b.and_(b.compared(position, start, "GE"), b.compared(position, end, "LT"))


class _Tiles:
    """The table of tiles: how many there are, and which rows of which group each has."""

    def __init__(self, b: Expansion, runs: _Runs, tile: int) -> None:
        self.runs, self.tile = runs, tile
        dims = (runs.count,)
        sizes = b.subtract(runs.ends, runs.starts)
        sizes = b.maximum(sizes, b.full(0, S32, dims))
        up = b.add(sizes, b.full(tile - 1, S32, dims))
        each = b.divide(up, b.full(tile, S32, dims))
        self.after = runs.running(each)
        last = b.sliced(self.after, 0, runs.count - 1, runs.count)
        self.total = b.reshaped(last, ())
        # The first row of tile number t of group g is first[g] + t * tile.
        before = b.subtract(self.after, each)
        self.first = b.subtract(runs.starts, b.multiply(before, b.full(tile, S32, dims)))

    @property
    def fixed(self) -> list[Instruction]:
        return [self.after, self.first, self.runs.ends]


def _at(b: Expansion, vector: Instruction, index: Instruction) -> Instruction:
    part = b.emit("dynamic-slice", vector, index, dynamic_slice_sizes=(1,))
    return b.reshaped(part, ())


def _tile(b: Expansion, k: Instruction, table: list[Instruction], tile: int, rows: int):
    """(group, first row read, pred[tile] of the rows that belong to it) of tile number k."""
    after, first, ends = table
    groups = after.shape.dims[0]
    passed = b.compared(after, b.spread(k, (groups,)), "LE")
    group = b.total(b.converted(passed, S32), (0,))
    start = b.add(_at(b, first, group), b.multiply(k, b.scalar(tile, S32)))
    read = b.minimum(start, b.scalar(rows - tile, S32))
    position = b.add(b.spread(read, (tile,)), b.iota(S32, (tile,)))
    own = b.and_(
        b.compared(position, b.spread(start, (tile,)), "GE"),
        b.compared(position, b.spread(_at(b, ends, group), (tile,)), "LT"),
    )
    return group, read, own


@register
class RaggedDotExpander(Expander):
    """Write ragged-dot as a loop over tiles of its groups, or as masked dots."""

    name = "ragged-dot-expander"
    gives = (without("ragged-dot"),)
    breaks = (canonical_dots, no_dead_code)
    opcodes = frozenset(["ragged-dot"])

    tile: int = 64
    """At most so many rows of a group meet its matrix at once."""

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        if i.shape.is_dynamic or any(o.shape.is_dynamic for o in i.operands):
            return None
        a, (x, y, sizes) = i.attrs, i.operands
        if len(a.lhs_ragged_dims) != 1:
            raise refuse(i, "it needs one ragged dimension", "ragged-dot")
        ragged = a.lhs_ragged_dims[0]
        numbers = (
            tuple(a.lhs_batch_dims),
            tuple(a.lhs_contracting_dims),
            tuple(a.rhs_batch_dims),
            tuple(a.rhs_contracting_dims),
        )
        if ragged in a.lhs_batch_dims:
            return plain_dot(b, i, x, y, numbers, i.shape.dtype)
        if 0 in (*x.shape.dims, *y.shape.dims, *i.shape.dims):
            return b.full(0, i.shape.dtype, i.shape.dims)
        operands, dtype = product_types(x.shape.dtype, y.shape.dtype, i.shape.dtype)
        x, y = b.converted(x, operands), b.converted(y, operands)
        matrices = not a.lhs_batch_dims and x.shape.rank == 2 and len(a.lhs_contracting_dims) == 1
        runs = _Runs(b, sizes, x.shape.dims[ragged])
        matrices = matrices and sizes.shape.rank == 1
        if ragged in a.lhs_contracting_dims:
            tiled = matrices and y.shape.rank == 2
            form = self.tiled_terms if tiled else self.masked_terms
        else:
            tiled = matrices and y.shape.rank == 3
            form = self.tiled_rows if tiled else self.masked_rows
        return b.converted(form(b, i, x, y, runs, numbers, dtype), i.shape.dtype)

    def tiled_rows(self, b: Expansion, i: Instruction, x, y, runs: _Runs, numbers, dtype):
        """out[m] = x[m] times the matrix of m's group; 0 for rows of no group."""
        rows, group_axis = runs.rows, i.attrs.rhs_group_dims[0]
        tile = min(self.tile, rows)
        ragged, contracted = i.attrs.lhs_ragged_dims[0], numbers[3][0]
        matrix_axis = contracted - (contracted > group_axis)
        tiles = _Tiles(b, runs, tile)

        def step(b: Expansion, k, state, fixed):
            x, y, *table = fixed
            group, read, own = _tile(b, k, table, tile, rows)
            one = rows_from(b, y, group_axis, group, 1)
            sizes = [n for d, n in enumerate(y.shape.dims) if d != group_axis]
            part = plain_dot(
                b,
                i,
                rows_from(b, x, ragged, read, tile),
                b.reshaped(one, sizes),
                ((), numbers[1], (), (matrix_axis,)),
                dtype,
            )
            old = rows_from(b, state[0], 0, read, tile)
            own = b.spread(own, old.shape.dims, (0,))
            return [with_rows(b, state[0], b.select(own, part, old), 0, read)]

        start = b.full(0, dtype, i.shape.dims)
        return counted_loop(b, "ragged_dot", tiles.total, [start], [x, y, *tiles.fixed], step)[0]

    def tiled_terms(self, b: Expansion, i: Instruction, x, y, runs: _Runs, numbers, dtype):
        """out[g] = the sum over the terms of group g alone."""
        rows, (x_axis,), (y_axis,) = runs.rows, numbers[1], numbers[3]
        tile = min(self.tile, rows)
        tiles = _Tiles(b, runs, tile)

        def masked(b: Expansion, v, axis: int, read, own):
            part = rows_from(b, v, axis, read, tile)
            own = b.spread(own, part.shape.dims, (axis,))
            return b.select(own, part, b.full(0, v.shape.dtype, part.shape.dims))

        def step(b: Expansion, k, state, fixed):
            x, y, *table = fixed
            group, read, own = _tile(b, k, table, tile, rows)
            lhs, rhs = masked(b, x, x_axis, read, own), masked(b, y, y_axis, read, own)
            part = plain_dot(b, i, lhs, rhs, numbers, dtype)
            old = rows_from(b, state[0], 0, group, 1)
            part = b.add(old, b.reshaped(part, old.shape.dims))
            return [with_rows(b, state[0], part, 0, group)]

        start = b.full(0, dtype, i.shape.dims)
        return counted_loop(b, "ragged_dot", tiles.total, [start], [x, y, *tiles.fixed], step)[0]

    def masked_rows(self, b: Expansion, i: Instruction, x, y, runs: _Runs, numbers, dtype):
        """As `tiled_rows`, for any dimensions: each group's dot of all rows, and a choice."""
        group_axis = i.attrs.rhs_group_dims[0]
        lhs_batch, lhs_contracting, *rhs = numbers
        # Without the group dimension, those behind it move up by one.
        batch, contracting = (tuple(d - (d > group_axis) for d in dims) for dims in rhs)
        numbers = (lhs_batch, lhs_contracting, batch, contracting)
        free = [d for d in range(x.shape.rank) if d not in (*lhs_batch, *lhs_contracting)]
        order = [*lhs_batch, *free]  # the dimensions of lhs as they stand in the result
        axis = order.index(i.attrs.lhs_ragged_dims[0])
        prefix = tuple(order.index(d) for d in group_prefix(i.attrs, x.shape.rank))
        sizes = [n for d, n in enumerate(y.shape.dims) if d != group_axis]
        rows = b.full(0, dtype, i.shape.dims)
        for g in range(runs.count):
            matrix = b.reshaped(b.sliced(y, group_axis, g, g + 1), sizes)
            part = plain_dot(b, i, x, matrix, numbers, dtype)
            rows = b.select(runs.mask(g, i.shape.dims, axis, prefix), part, rows)
        return rows

    def masked_terms(self, b: Expansion, i: Instruction, x, y, runs: _Runs, numbers, dtype):
        """As `tiled_terms`, for any dimensions."""
        ragged = i.attrs.lhs_ragged_dims[0]
        at = numbers[1].index(ragged)
        y_axis = numbers[3][at]
        prefixes = (*numbers[0], *numbers[1][:at]), (*numbers[2], *numbers[3][:at])
        parts = []
        for g in range(runs.count):
            lhs, rhs = (
                b.select(
                    runs.mask(g, v.shape.dims, axis, prefix),
                    v,
                    b.full(0, v.shape.dtype, v.shape.dims),
                )
                for v, axis, prefix in ((x, ragged, prefixes[0]), (y, y_axis, prefixes[1]))
            )
            part = plain_dot(b, i, lhs, rhs, numbers, dtype)
            parts.append(b.reshaped(part, (1, *part.shape.dims)))
        return b.joined(parts, 0)
