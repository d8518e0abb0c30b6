"""Products of groups of rows, a group's rows standing together, as loops over tiles of rows.

No tile is across two groups. A loop runs over all tiles, as many as the run-time sizes need and
none for an empty group: tile number t belongs to the group with so many tiles before it (counts
summed up and compared with t). A tile reads a fixed number of rows; those of another group are
masked. This is (rows + groups * tile) products of rows instead of rows * groups.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloom.base.diagnostics import UsageError
from hloom.ir.instruction import Instruction
from hloom.ir.values.window import Window, WindowDimension
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.expand.loops import counted_loop, rows_from, with_rows
from hloom.types.dtype import S32, S64, DType
from hloom.types.shape import shape

MOST_ROWS = 1 << 30
"""Rows that tiles are cut of: their numbers, and those of a tile behind the last, have 32 bits."""
LEAST_TILE = 8
"""Rows of a tile: on average half of the last one of a group are masked."""

MOST_COMPARED = 256
"""Groups whose positions are all compared with one another, which is done by vectors."""

Dims = tuple[int, ...]
Group = int | Instruction
"""The number of a group, or the scalar that counts them in a loop."""


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


class Runs:
    """Where each group begins and ends along the ragged dimension: s32[prefix..., groups], s64 of
    more than `MOST_ROWS`."""

    def __init__(self, b: Expansion, starts: Instruction, ends: Instruction, rows: int) -> None:
        """Where starts and ends, of any integers, lie beyond the rows, rows end."""
        self.b, self.rows = b, rows
        self.dtype = S32 if rows <= MOST_ROWS else S64
        self.dims = starts.shape.dims
        self.count = self.dims[-1]
        self.starts, self.ends = (self._clamped(x) for x in (starts, ends))

    @staticmethod
    def of_sizes(b: Expansion, sizes: Instruction, rows: int) -> Runs:
        """Groups of these sizes, one behind the other."""
        wide = b.converted(sizes, S64)
        ends = running(b, wide)
        return Runs(b, b.subtract(ends, wide), ends, rows)

    def tile(self, most: int) -> int:
        """Rows of a tile: about as many as a group has, and no more than `most`."""
        rows = LEAST_TILE
        while rows < most and rows * self.count < self.rows:
            rows *= 2
        return min(rows, most, self.rows)

    def _clamped(self, x: Instruction) -> Instruction:
        b = self.b
        wide = b.converted(x, S64)
        least, most = (b.full(n, S64, self.dims) for n in (0, self.rows))
        return b.converted(b.maximum(b.minimum(wide, most), least), self.dtype)

    @property
    def table(self) -> list[Instruction]:
        return [self.starts, self.ends]


def mask_of(
    b: Expansion, table: list[Instruction], group: Group, dims: Dims, axis: int, prefix: Dims
) -> Instruction:
    """Which positions along `axis` are in the run of a group, by the table of all runs; `prefix`
    are the dimensions that the leading ones of the sizes stand for."""
    of = table[0].shape
    last = of.rank - 1
    position = b.iota(of.dtype, dims, axis)
    order = sorted(range(last), key=prefix.__getitem__)
    start, end = (
        b.spread(
            b.transposed(b.reshaped(one_of(b, v, last, group), of.dims[:-1]), order),
            dims,
            sorted(prefix[:last]),
        )
        for v in table
    )
    return b.and_(b.compared(position, start, "GE"), b.compared(position, end, "LT"))


def one_of(b: Expansion, x: Instruction, axis: int, group: Group) -> Instruction:
    """What one group has along a dimension of groups, whose size is 1 then."""
    if isinstance(group, int):
        return b.sliced(x, axis, group, group + 1)
    return rows_from(b, x, axis, group, 1)


def running(b: Expansion, x: Instruction) -> Instruction:
    """Sums of the elements up to each, along the last dimension: of few by comparing positions."""
    last = len(x.shape.dims) - 1
    count = x.shape.dims[-1]
    if count > MOST_COMPARED:
        windows = [WindowDimension(1)] * last + [WindowDimension(count, padding_low=count - 1)]
        called = (b.combiner("add", x.shape.dtype),)
        zero = b.scalar(0, x.shape.dtype)
        return b.emit(
            "reduce-window", x, zero, window=Window(tuple(windows)), called=called, shape=x.shape
        )
    square = (*x.shape.dims, x.shape.dims[-1])
    upto = b.compared(b.iota(S32, square, last), b.iota(S32, square, last + 1), "LE")
    spread = b.spread(x, square, tuple(range(last + 1)))
    return b.total(b.select(upto, spread, b.full(0, x.shape.dtype, square)), (last,))


class _Tiles:
    """The table of tiles: how many there are, and which rows of which group each has."""

    def __init__(self, b: Expansion, runs: Runs, tile: int) -> None:
        self.runs, self.tile = runs, tile
        dims = (runs.count,)
        sizes = b.subtract(runs.ends, runs.starts)
        sizes = b.maximum(sizes, b.full(0, S32, dims))
        up = b.add(sizes, b.full(tile - 1, S32, dims))
        each = b.divide(up, b.full(tile, S32, dims))
        self.after = running(b, each)
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


@dataclass(frozen=True)
class GroupedExpander(Expander):
    """What cuts rows of groups into tiles."""

    tile: int = 64
    """At most so many rows of a group meet its matrix at once."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tile < 1:
            raise UsageError(f"tile is 1 row at least, not {self.tile}", rule="pass-option")


def tiled_rows(
    b: Expansion,
    i: Instruction,
    factors: tuple[Instruction, Instruction],
    axes: tuple[int, int, int, int],
    runs: Runs,
    dtype: DType,
    most: int,
) -> Instruction:
    """out[m] = x[m] times the sum of the matrices of the groups that m is in.

    `axes`: of `x` that of rows and that contracted, of `y` that of groups and that contracted.
    """
    x, y = factors
    x_rows, x_contracted, y_groups, y_contracted = axes
    rows, tile = runs.rows, runs.tile(most)
    tiles = _Tiles(b, runs, tile)
    contracted = (x_contracted,), (y_contracted - (y_contracted > y_groups),)

    def step(b: Expansion, k, state, fixed):
        x, y, *table = fixed
        group, read, own = _tile(b, k, table, tile, rows)
        one = rows_from(b, y, y_groups, group, 1)
        matrix = b.reshaped(one, [n for d, n in enumerate(y.shape.dims) if d != y_groups])
        numbers = ((), contracted[0], (), contracted[1])
        part = plain_dot(b, i, rows_from(b, x, x_rows, read, tile), matrix, numbers, dtype)
        old = rows_from(b, state[0], 0, read, tile)
        own = b.spread(own, old.shape.dims, (0,))
        return [with_rows(b, state[0], b.select(own, b.add(old, part), old), 0, read)]

    start = b.full(0, dtype, i.shape.dims)
    return counted_loop(b, "ragged_dot", tiles.total, [start], [x, y, *tiles.fixed], step)[0]


def tiled_terms(
    b: Expansion,
    i: Instruction,
    factors: tuple[Instruction, Instruction],
    axes: tuple[int, int],
    runs: Runs,
    dtype: DType,
    most: int,
) -> Instruction:
    """out[g] = the sum over the terms of group g alone; `axes`: of each factor that of terms."""
    rows, tile = runs.rows, runs.tile(most)
    tiles = _Tiles(b, runs, tile)
    numbers = ((), (axes[0],), (), (axes[1],))

    def masked(b: Expansion, v, axis: int, read, own):
        part = rows_from(b, v, axis, read, tile)
        own = b.spread(own, part.shape.dims, (axis,))
        return b.select(own, part, b.full(0, v.shape.dtype, part.shape.dims))

    def step(b: Expansion, k, state, fixed):
        x, y, *table = fixed
        group, read, own = _tile(b, k, table, tile, rows)
        lhs, rhs = masked(b, x, axes[0], read, own), masked(b, y, axes[1], read, own)
        part = plain_dot(b, i, lhs, rhs, numbers, dtype)
        old = rows_from(b, state[0], 0, group, 1)
        part = b.add(old, b.reshaped(part, old.shape.dims))
        return [with_rows(b, state[0], part, 0, group)]

    start = b.full(0, dtype, i.shape.dims)
    fixed = [*factors, *tiles.fixed]
    return counted_loop(b, "ragged_dot", tiles.total, [start], fixed, step)[0]
