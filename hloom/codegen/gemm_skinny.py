"""Products with few rows: B is read once, where it stands, and nothing is packed.

Two forms. B stored along the columns is read some rows at a time, long runs of them, into sums
that stay in the first-level cache; B stored along K is multiplied by A in vectors along K.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.gemm import Finish
from hloom.codegen.gemm_pack import Packer
from hloom.codegen.gemm_plan import Plan
from hloom.codegen.product import Product
from hloom.codegen.tile import Frame
from hloom.kernel.kernel import Value

# How many rows of B are read side by side.
DEEP = 8


class SkinnyWriter(Finish):
    """Writes one step of a product with few rows."""

    def __init__(self, frame: Frame, p: Product, plan: Plan) -> None:
        super().__init__(frame, p)
        self.plan = plan
        self.packer = Packer(self.e, p, Plan("packed", 1, 1, 1, piece=p.depths[0]))
        self.tiles = -(-p.columns // plan.width)

    def write(self) -> None:
        """The step."""
        e, p, plan, grid = self.e, self.p, self.plan, self.b.grid_indices
        self.batch = e.indices.scalar(grid[0], 0, p.batch - 1)
        first = e.indices.scalar(grid[2], 0, plan.blocks - 1).times(plan.panels)
        end = self.packer.least(first.plus(plan.panels), self.tiles)
        if plan.form == "along-k":
            self.packer.each(first, end, 1, self._along_k)
        else:
            self._direct(first, end)

    def _column(self, tile: Affine) -> tuple[Affine, int]:
        """The first column of a tile, the last moved back to fit; and how wide tiles are."""
        width, columns = self.plan.width, self.p.columns
        if columns <= width:
            return ZERO, columns
        start = tile.times(width)
        return (self.packer.least(start, columns - width) if columns % width else start), width

    # -- B along the columns

    def _direct(self, first: Affine, end: Affine) -> None:
        e, p, plan, b = self.e, self.p, self.plan, self.b
        height = p.rows
        sums = b.alloc(p.of, plan.panels * plan.width * height)
        depth = p.depth
        deep = min(DEEP, depth)

        def some(k: Affine, deep: int, fresh: bool) -> None:
            digits = [e.indices.digits(k.plus(j), p.depths) for j in range(deep)]

            def tile(t: Affine) -> None:
                n, width = self._column(t)
                at = e.scalar(t.plus(first.times(-1)).times(plan.width * height))
                shape = (height, width)
                if fresh:
                    acc = b.constant(p.of, 0, shape)
                else:
                    acc = b.load(sums, at, shape, (plan.width, 1))
                e.tile = shape
                row = e.indices.lane(0, height, 2)
                column = n.plus(e.indices.lane(1, width, 2))
                for digit in digits:
                    left = b.broadcast(p.a(e, self.batch, row, digit), (height, 1))
                    right = b.broadcast(p.b(e, self.batch, column, digit), (1, width))
                    acc = b.dot(acc, left, right)
                b.store(sums, at, acc, (plan.width, 1))

            self.packer.each(first, end, 1, tile)

        some(ZERO, deep, True)
        whole = depth - depth % deep
        e.loop(whole, (), lambda k: (some(k, deep, False), ())[1], step=deep, lower=deep)
        e.loop(depth, (), lambda k: (some(k, 1, False), ())[1], lower=whole)
        self.packer.each(first, end, 1, lambda t: self._store(sums, first, t))

    def _store(self, sums: Value, first: Affine, t: Affine) -> None:
        """Finish a tile of sums; the last one without what the one before it has."""
        e, p, plan, b = self.e, self.p, self.plan, self.b
        n, width = self._column(t)
        at = t.plus(first.times(-1)).times(plan.width * p.rows)
        rest = p.columns % plan.width if p.columns > plan.width else 0

        def rows(begin: int, size: int):
            def row(r: Affine) -> None:
                place = e.scalar(at.plus(r.times(plan.width)).plus(begin))
                shape = (size,) if size > 1 else ()
                value = b.load(sums, place, shape, (1,) if size > 1 else ())
                self.finish(value, r, n.plus(begin), 1, size)

            return row

        height = constant(p.rows)
        if not rest:
            self.packer.each(ZERO, height, 1, rows(0, width))
            return
        full = b.compare("LT", e.scalar(t), b.index(self.tiles - 1))
        middle = b.select(full, b.index(p.rows), b.index(0))
        border = e.indices.scalar(middle, 0, p.rows)
        self.packer.each(ZERO, border, 1, rows(0, width))
        self.packer.each(border, height, 1, rows(width - rest, rest))

    # -- B along K

    def _along_k(self, tile: Affine) -> None:
        """Vectors along K for a few columns; an accumulator for each row and column."""
        p, b, e = self.p, self.b, self.e
        n, width = self._column(tile)
        rest = p.columns % self.plan.width if p.columns > self.plan.width else 0
        results = [b.reshape(x, (width,)) for x in self._sums(n, width)]
        if not rest:
            for m, x in enumerate(results):
                self._finish_columns(x, m, n, width)
            return
        full = b.compare("LT", e.scalar(tile), b.index(self.tiles - 1))
        border = e.indices.scalar(b.convert(full, b.index(0).dtype), 0, 1)

        def whole(_: Affine) -> None:
            for m, x in enumerate(results):
                self._finish_columns(x, m, n, width)

        def part(_: Affine) -> None:
            for m, x in enumerate(results):
                last = b.slice(x, 0, width - rest, rest)
                self._finish_columns(last, m, n.plus(width - rest), rest)

        self.packer.each(ZERO, border, 1, whole)
        self.packer.each(border, constant(1), 1, part)

    def _finish_columns(self, x: Value, m: int, n: Affine, width: int) -> None:
        self.finish(x, constant(m), n, 1, width)

    def _sums(self, n: Affine, width: int) -> list[Value]:
        e, p, b = self.e, self.p, self.b
        lanes = max(e.vector_bytes // max(p.of.size_bytes, 1), 1)
        inner = p.depths[-1]
        lanes = min(lanes, inner)
        outer = prod(p.depths[:-1])
        sums = [b.constant(p.of, 0, (width, lanes)) for _ in range(p.rows)]

        def step(o: Affine, k: Affine, deep: int, totals: Sequence[Value]) -> list[Value]:
            e.tile = (width, deep)
            column = n.plus(e.indices.lane(0, width, 2))
            along = k.plus(e.indices.lane(1, deep, 2))
            digits = [*e.indices.digits(o, p.depths[:-1]), along]
            right = b.broadcast(p.b(e, self.batch, column, digits), e.tile)
            found = []
            for m, total in enumerate(totals):
                left = b.broadcast(p.a(e, self.batch, constant(m), digits), e.tile)
                if total.dtype.is_floating:
                    found.append(b.fma(left, right, total))
                else:
                    found.append(b.binary("add", total, b.binary("multiply", left, right)))
            return found

        full = inner - inner % lanes

        def rows(o: Affine, *totals: Value) -> Sequence[Value]:
            return e.loop(full, totals, lambda k, *x: step(o, k, lanes, x), step=lanes)

        sums = list(e.loop(outer, sums, rows))
        results = [b.reduce(x, 1, "add") for x in sums]
        if full == inner:
            return results

        def tails(o: Affine, *totals: Value) -> Sequence[Value]:
            zero = [b.constant(p.of, 0, (width, inner - full)) for _ in totals]
            found = step(o, constant(full), inner - full, zero)
            return [b.binary("add", x, b.reduce(y, 1, "add")) for x, y in zip(totals, found)]

        return list(e.loop(outer, results, tails))
