"""Products with few rows: B is read once, where it stands, and nothing is packed.

Three forms. B stored along the columns is read some rows at a time, long runs of them, into sums
that stay in the first-level cache; where all of B stays in the second, each tile of sums stays in
registers for all of K. B stored along K is multiplied by A in vectors along K.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.blocked_fold import (
    DEEP_RUN,
    Restart,
    block_sizes,
    blocked_loop,
    chain_of,
    rounds,
    sum_restart,
)
from hloom.codegen.gemm import ProductFinish
from hloom.codegen.gemm_pack import Packer
from hloom.codegen.gemm_tiling import DEEP_ALONG, GemmTiling, share_bytes
from hloom.codegen.product import Product
from hloom.codegen.row_products import multiply_add
from hloom.codegen.tile import KernelEmitter
from hloom.kernel.kernel import Value
from hloom.types.dtype import S32

# How many rows of B are read side by side.
DEEP = 8
# Vectors along K that are summed in a row, for many sums and for few.
ALONG_RUN, ALONG_FEW_RUN, FEW_SUMS = 64, 16, 8
MOST_FINISHED = 64
"""Columns of sums along K that are finished at a time, where many are."""
# The most memory for sums, a share of the second-level cache: where it is not enough for blocks of
# K, all are summed in a row.
MOST_SUMS_SHARE = 1 / 2


class SkinnyWriter(ProductFinish):
    """Writes one step of a product with few rows."""

    def __init__(self, emitter: KernelEmitter, p: Product, tiling: GemmTiling) -> None:
        super().__init__(emitter, p)
        self.tiling = tiling
        tile = GemmTiling("packed", 1, tiling.lanes, tiling.vectors, piece=p.depths[0])
        self.packer = Packer(self.e, p, tile)
        self.tiles = -(-p.columns // tiling.width)
        is_even = tiling.form == "direct" and tiling.width % p.b_parts == 0
        self._column_parts = p.b_parts if is_even else 1
        """How many columns next to each other are in a byte of B."""

    def write(self) -> None:
        """The step."""
        e, p, tiling, grid = self.e, self.p, self.tiling, self.b.grid_indices
        self.batch = e.indices.scalar(grid[0], 0, p.batch - 1)
        first = e.indices.scalar(grid[2], 0, tiling.blocks - 1).times(tiling.panels)
        end = self.packer.least(first.plus(tiling.panels), self.tiles)
        if tiling.form == "along-k" and self._has_runs():
            self._along_runs(first)
        elif tiling.form == "along-k":
            self.packer.each(first, end, 1, self._along_k)
        elif tiling.form == "near":
            self.packer.each(first, end, 1, self._near)
        else:
            self._direct(first, end)

    def _column(self, tile: Affine) -> tuple[Affine, int]:
        """The first column of a tile, the last moved back to fit; and how wide tiles are."""
        width, columns = self.tiling.width, self.p.columns
        if columns <= width:
            return ZERO, columns
        start = tile.times(width)
        return (self.packer.least(start, columns - width) if columns % width else start), width

    def _rows(self, body: Callable[[Affine, Affine], None]) -> None:
        """`body(first row, how many of its rows another tile has)` for each tile of rows."""
        rows, height = self.p.rows, self.tiling.height

        def one(start: Affine) -> None:
            row = self.packer.least(start, rows - height) if rows % height else start
            body(row, start.plus(row.times(-1)))

        self.packer.each(ZERO, constant(-(-rows // height) * height), height, one)

    # -- B along the columns

    def _direct(self, first: Affine, end: Affine) -> None:
        e, p, tiling, b = self.e, self.p, self.tiling, self.b
        height = tiling.height
        # Each tile has sums of its own, also of rows that another tile has too: those of the first
        # columns of each byte, then those of the second.
        parts = self._column_parts
        size = -(-p.rows // height) * height * tiling.width
        total = tiling.panels * size
        # What is being summed, and what it will be joined to.
        sums = [b.alloc(p.of, total)]
        depth = p.depth
        deep = min(DEEP, depth)

        def some(k: Affine, deep: int) -> None:
            digits = [e.indices.digits(k.plus(j), p.depths) for j in range(deep)]

            def tile(t: Affine) -> None:
                n, width = self._column(t)
                base = t.plus(first.times(-1)).times(size)
                shape = (height, width // parts)

                def rows(m: Affine, skipped: Affine) -> None:
                    place = base.plus(m.plus(skipped).times(tiling.width))
                    e.tile = shape
                    row = m.plus(e.indices.lane(0, height, 2))
                    across = e.indices.lane(1, shape[1], 2).times(parts)
                    for part in range(parts):
                        at = e.scalar(place.plus(part * shape[1]))
                        acc = b.load(sums[-1], at, shape, (tiling.width, 1))
                        column = n.plus(part).plus(across)
                        acc = self._added(acc, row, column, digits)
                        b.store(sums[-1], at, acc, (tiling.width, 1))

                self._rows(rows)

            self.packer.each(first, end, 1, tile)

        self._clear(sums[-1], total)
        whole = depth - depth % deep
        restart = self._restart(sums, total)
        blocked_loop(
            e, whole, (), lambda k: (some(k, deep), ())[1], restart, deep, chain=deep, run=DEEP_RUN
        )
        e.loop(depth, (), lambda k: (some(k, 1), ())[1], lower=whole)

        def finish(t: Affine) -> None:
            n, width = self._column(t)
            base = t.plus(first.times(-1)).times(size)

            def rows(m: Affine, skipped: Affine) -> None:
                # Row m of the result is row `skipped` of the sums of this tile of rows.
                at = base.plus(skipped.times(tiling.width))
                low, high = m.plus(skipped), m.plus(height)
                self._store(sums[-1], at, tiling.width, low, high, t, n, width)

            self._rows(rows)

        self.packer.each(first, end, 1, finish)

    def _added(
        self, acc: Value, row: Affine, column: Affine, digits: Sequence[Sequence[Affine]]
    ) -> Value:
        """A tile of sums and products of its rows and columns at some places of K."""
        e, p, b = self.e, self.p, self.b
        for digit in digits:
            left = b.convert(p.a(e, self.batch, row, digit), p.of)
            right = b.convert(p.b(e, self.batch, column, digit), p.of)
            left = b.broadcast(left, (acc.shape[0], 1))
            acc = b.dot(acc, left, b.broadcast(right, (1, acc.shape[1])))
        return acc

    def _clear(self, sums: Value, count: int) -> None:
        """Begin sums that lie in memory."""
        width = self.tiling.width
        zero = self.b.constant(self.p.of, 0, (width,))
        self.packer.each(
            ZERO, constant(count), width, lambda k: self.b.store(sums, self.e.scalar(k), zero, (1,))
        )

    def _restart(self, sums: list[Value], count: int) -> Restart | None:
        """How sums in memory are cut in blocks: those of a block lie in a memory of their own."""
        p, b, e, width = self.p, self.b, self.e, self.tiling.width
        levels = 1 + len(block_sizes(p.depth // DEEP, DEEP, DEEP_RUN))
        most = share_bytes(self.e.device, MOST_SUMS_SHARE)
        if levels * count * p.of.size_bytes > most or not rounds("add", p.of):
            return None

        def begin() -> Sequence[Value]:
            with b.at(0):
                sums.append(b.alloc(p.of, count))
            self._clear(sums[-1], count)
            return ()

        def join(_: Sequence[Value], __: Sequence[Value]) -> Sequence[Value]:
            block = sums.pop()

            def add(k: Affine) -> None:
                at = e.scalar(k)
                x, y = [b.load(s, at, (width,), (1,)) for s in (sums[-1], block)]
                b.store(sums[-1], at, b.binary("add", x, y), (1,))

            self.packer.each(ZERO, constant(count), width, add)
            return ()

        return Restart(begin, join)

    def _store(
        self,
        sums: Value,
        at: Affine,
        stride: int,
        low: Affine,
        high: Affine,
        t: Affine,
        n: Affine,
        width: int,
    ) -> None:
        """Finish rows `low` to `high` of sums, counted from `at`, of tile `t` of the columns; the
        last tile without what the one before it has."""
        e, p, b = self.e, self.p, self.b
        rest = p.columns % self.tiling.width if p.columns > self.tiling.width else 0
        zero, parts = at, self._column_parts

        def rows(begin: int, size: int, moved: bool = False) -> Callable[[Affine], None]:
            def row(r: Affine) -> None:
                place = e.scalar(zero.plus(r.times(stride)).plus(begin // parts if moved else 0))
                if parts > 1:
                    value = b.load(sums, place, (size // parts, parts), (1, width // parts))
                    value = b.reshape(value, (size,))
                else:
                    shape = (size,) if size > 1 else ()
                    value = b.load(sums, place, shape, (1,) if size > 1 else ())
                self.finish(value, r, n.plus(begin), 1, size)

            return row

        if not rest:
            self.packer.each(low, high, 1, rows(0, min(width, p.columns)))
            return
        full = b.compare("LT", e.scalar(t), b.index(self.tiles - 1))
        middle = b.select(full, e.scalar(high), e.scalar(low))
        border = e.indices.scalar(middle, low.bounds()[0], high.bounds()[1])
        self.packer.each(low, border, 1, rows(0, width))
        self.packer.each(border, high, 1, rows(width - rest, rest, p.b_panels is None))

    def _near(self, tile: Affine) -> None:
        """All of K for a tile of columns, a tile of rows at a time."""
        e, p, b, height = self.e, self.p, self.b, self.tiling.height
        n, width = self._column(tile)
        panel = None
        if p.b_panels is not None:
            width, whole = self.tiling.width, self.packer.whole()
            panel = self.packer.panel_place(self.packer.panels_of_b(), tile, whole)
        shape = (height, width)
        sums = b.alloc(p.of, height * width)

        def rows(m: Affine, skipped: Affine) -> None:
            def step(k: Affine, acc: Value) -> Sequence[Value]:
                e.tile = shape
                digits = e.indices.digits(k, p.depths)
                row, column = (
                    m.plus(e.indices.lane(0, height, 2)),
                    n.plus(e.indices.lane(1, width, 2)),
                )
                left = b.convert(p.a(e, self.batch, row, digits), p.of)
                if panel is None:
                    right = b.convert(p.b(e, self.batch, column, digits), p.of)
                else:
                    buffer, place, across = panel
                    place = e.scalar(place.plus(k.times(across)))
                    right = b.load(buffer, place, (1, width), (across, 1))
                left, right = b.broadcast(left, (height, 1)), b.broadcast(right, (1, width))
                return [b.dot(acc, left, right)]

            zero = b.constant(p.of, 0, shape)
            [acc] = blocked_loop(e, p.depth, [zero], step, sum_restart(e, [zero]), run=DEEP_RUN)
            b.store(sums, b.index(0), acc, (width, 1))
            at = m.times(-width)
            self._store(sums, at, width, m.plus(skipped), m.plus(height), tile, n, width)

        self._rows(rows)

    # -- B along K

    def _along_k(self, tile: Affine) -> None:
        """Vectors along K for a few rows and columns; an accumulator for each of both."""
        b = self.b
        n, width = self._column(tile)
        height = self.tiling.height
        sums = b.alloc(self.p.of, height * width)

        def rows(m: Affine, skipped: Affine) -> None:
            for r, x in enumerate(self._sums(m, n, width)):
                place = b.index(r * width)
                b.store(sums, place, b.reshape(x, (width,)), (1,))
            at = m.times(-width)
            low, high = m.plus(skipped), m.plus(height)
            self._store(sums, at, width, low, high, tile, n, width)

        self._rows(rows)

    def _has_runs(self) -> bool:
        """Whether all steps have as many whole tiles of columns, several, and one of rows; and K is
        so long that it does not matter how its sums are stored."""
        p, tiling = self.p, self.tiling
        is_even = p.columns == tiling.blocks * tiling.panels * tiling.width
        return is_even and p.depth >= DEEP_ALONG and tiling.panels > 1 and tiling.height == p.rows

    def _along_runs(self, first: Affine) -> None:
        """A step whose tiles take columns that are as far from each other as there are tiles: what
        a lane reads in one tile lies right behind what it read in the one before, so that a core
        reads few long runs of memory instead of many short ones. All are finished at the end."""
        p, b, e, tiling = self.p, self.b, self.e, self.tiling
        total = tiling.panels * tiling.width
        sums = b.alloc(p.of, tiling.height * total)
        start = first.times(tiling.width)

        def tile(t: Affine) -> None:
            columns = self._sums(ZERO, start.plus(t), tiling.width, tiling.panels)
            for r, x in enumerate(columns):
                place = e.scalar(t.plus(r * total))
                b.store(sums, place, b.reshape(x, (tiling.width,)), (tiling.panels,))

        self.packer.each(ZERO, constant(tiling.panels), 1, tile)
        size = next(n for n in range(MOST_FINISHED, 0, -1) if total % n == 0)

        def finish(c: Affine) -> None:
            for r in range(tiling.height):
                place = e.scalar(c.plus(r * total))
                shape = (size,) if size > 1 else ()
                value = b.load(sums, place, shape, (1,) if size > 1 else ())
                self.finish(value, constant(r), start.plus(c), 1, size)

        self.packer.each(ZERO, constant(total), size, finish)

    def _sums(self, m: Affine, n: Affine, width: int, apart: int = 1) -> list[Value]:
        """For each row of a tile the sums of its columns, which are so far `apart`."""
        e, p, b = self.e, self.p, self.b
        parts = p.b_parts if p.depths[-1] % p.b_parts == 0 else 1
        inner = p.depths[-1] // parts
        lanes = min(max(e.device.compute.vector_bytes // max(p.of.size_bytes, 1), 1), inner)
        outer = prod(p.depths[:-1])
        sums = [b.constant(p.of, 0, (width, lanes)) for _ in range(self.tiling.height)]
        restart = sum_restart(e, sums)
        run = ALONG_FEW_RUN if self.tiling.height * width <= FEW_SUMS else ALONG_RUN
        lane = b.iota(S32, (width, lanes), 1)
        is_new = b.compare("GE", lane, b.constant(S32, lanes - inner % lanes, (width, lanes)))

        def step(o: Affine, k: Affine, deep: int, totals: Sequence[Value]) -> list[Value]:
            e.tile = (width, deep)
            column = n.plus(e.indices.lane(0, width, 2).times(apart))
            along = k.plus(e.indices.lane(1, deep, 2)).times(parts)
            new_totals = list(totals)
            for part in range(parts):
                digits = [*e.indices.digits(o, p.depths[:-1]), along.plus(part)]
                right = b.convert(p.b(e, self.batch, column, digits), p.of)
                for r, total in enumerate(new_totals):
                    left = b.convert(p.a(e, self.batch, m.plus(r), digits), p.of)
                    new_totals[r] = multiply_add(e, left, right, total)
            return new_totals

        full, chain = inner - inner % lanes, chain_of(inner // lanes, run=run)

        def rows(o: Affine, *totals: Value) -> Sequence[Value]:
            def tile(k: Affine, *x: Value) -> Sequence[Value]:
                return step(o, k, lanes, x)

            totals = blocked_loop(e, full, totals, tile, restart, lanes, run=run)
            if full == inner:
                return totals
            # The last vector again has some of the one before it, which are not added twice.
            more = step(o, constant(inner - lanes), lanes, totals)
            return [b.select(is_new, x, y) for x, y in zip(more, totals)]

        sums = list(blocked_loop(e, outer, sums, rows, restart, chain=chain, run=run))
        return [b.reduce(x, 1, "add") for x in sums]
