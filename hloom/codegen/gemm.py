"""Kernels for products of matrices: packed panels, and a block of the result in registers.

A step of the grid owns a block of columns (and of rows, where there are few columns). It packs its
part of B into panels that stay in the second-level cache, packs a few rows of A at a time unless
they can be read where they stand, and keeps a tile of C in registers for the whole depth. What
follows the product (bias, activation, residual) is computed on that tile before it is stored.
Three forms: packed; direct (few rows: B is read once, where it stands); and for few rows with B
stored along K, vectors along K.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from hloom.codegen.affine import Affine, constant
from hloom.codegen.elements import Elements
from hloom.codegen.elements_data import reshaped
from hloom.codegen.product import Product
from hloom.codegen.tile import Body, Emitted, Frame
from hloom.codegen.work import body_work
from hloom.kernel.kernel import Value

# Elements of B that a step packs at once: 640 KiB of f32.
PANEL_BYTES = 640 * 1024
# The scratch for partial sums of a step.
PARTIAL_BYTES = 192 * 1024
# Steps wanted, so that threads can share the work.
STEPS = 16
UNROLL_DEPTH = 4


@dataclass(frozen=True)
class Plan:
    """Sizes of the blocks of one product."""

    form: str
    tile_rows: int
    tile_columns: int
    panels: int
    depth: int
    rows: int
    """Rows of one step."""

    @staticmethod
    def of(p: Product, vector_bytes: int) -> Plan:
        width = max(p.of.size_bytes, 1)
        lanes = max(vector_bytes // width, 1)
        registers = 24 if vector_bytes != 32 else 12
        if p.rows <= 6 and p.b_lanes == "k" and p.depth >= lanes:
            return Plan("along-k", p.rows, 4, 1, p.depth, p.rows)
        if p.rows <= 8 and p.b_lanes == "n":
            vectors = max(1, min(registers // p.rows, 8, -(-p.columns // lanes)))
            return Plan("direct", p.rows, vectors * lanes, 1, p.depth, p.rows)
        vectors = _panel_vectors(p.columns, lanes, 4 if vector_bytes != 32 else 2)
        tile_rows = _dividing(p.rows, registers // vectors)
        columns = vectors * lanes
        depth = _block_depth(p, columns * width)
        tiles = -(-p.columns // columns)
        panels = max(1, min(tiles, PANEL_BYTES // (depth * columns * width)))
        if p.direct_a and p.a_lanes == "k":
            panels = min(panels, 4)
        blocks = -(-tiles // panels)
        while blocks * p.batch < STEPS and panels > 1:
            panels = -(-panels // 2)
            blocks = -(-tiles // panels)
        rows = p.rows
        chunks = max(1, -(-STEPS // max(blocks * p.batch, 1)))
        if chunks > 1:
            least = max(64 // tile_rows, 1) * tile_rows
            rows = min(p.rows, max(-(-p.rows // chunks // tile_rows) * tile_rows, least))
        if depth != p.depth:
            most = max(PARTIAL_BYTES // (panels * columns * width) // tile_rows, 1) * tile_rows
            rows = min(rows, most)
        return Plan("packed", tile_rows, columns, panels, depth, rows)


def _panel_vectors(columns: int, lanes: int, most: int) -> int:
    """How many vectors wide a panel is: the width that wastes least, wide ones first."""
    best, least = 1, None
    for vectors in range(most, 0, -1):
        width = vectors * lanes
        waste = -(-columns // width) * width
        cost = waste * (1.0 + 0.15 * (most - vectors))
        if least is None or cost < least:
            best, least = vectors, cost
    return best


def _dividing(rows: int, most: int) -> int:
    """Rows of a tile: a divisor of all rows if a good one exists."""
    most = max(1, min(most, 12, rows))
    for n in range(most, max(most * 2 // 3, 1) - 1, -1):
        if rows % n == 0:
            return n
    return most


def _block_depth(p: Product, row_bytes: int) -> int:
    """How much of K is packed at once: all of it, or whole features, or a divisor of them."""
    most = max(PANEL_BYTES // row_bytes, 16)
    if p.depth <= most:
        return p.depth
    inner = p.depths[-1]
    if inner <= most:
        outer = p.depth // inner
        return inner * _largest_divisor(outer, most // inner)
    return _largest_divisor(inner, most)


def _largest_divisor(n: int, most: int) -> int:
    for d in range(min(n, most), 0, -1):
        if n % d == 0:
            return d
    return 1


def product_kernel(body: Body, p: Product, vector_bytes: int) -> Emitted:
    """The kernel of a body whose hero is a product."""
    plan = Plan.of(p, vector_bytes)
    tiles = -(-p.columns // plan.tile_columns)
    blocks = -(-tiles // plan.panels)
    chunks = -(-p.rows // plan.rows)
    frame = Frame(body, (p.batch, chunks, blocks), vector_bytes)
    writer = ProductWriter(frame, p, plan)
    if p.batch * p.rows * p.columns:
        writer.write()
    steps = max(p.batch * chunks * blocks, 1)
    work = p.flops * 0.01 + p.batch * p.rows * p.columns * body_work(body.instructions[:0])
    return frame.finish(20.0 + work / steps)


class ProductWriter:
    """Writes one step of a product."""

    def __init__(self, frame: Frame, p: Product, plan: Plan) -> None:
        self.frame = frame
        self.p = p
        self.plan = plan
        self.e: Elements = frame.elements
        self.b = frame.builder
        self.batch = constant(0)

    def write(self) -> None:
        """The step, in the form that the plan says."""
        e, p, plan, grid = self.e, self.p, self.plan, self.b.grid_indices
        tiles = -(-p.columns // plan.tile_columns)
        blocks = -(-tiles // plan.panels)
        chunks = -(-p.rows // plan.rows)
        self.batch = e.indices.scalar(grid[0], 0, p.batch - 1)
        first_row = e.indices.scalar(grid[1], 0, chunks - 1).times(plan.rows)
        first_tile = e.indices.scalar(grid[2], 0, blocks - 1).times(plan.panels)
        if plan.form == "along-k":
            self._each_tile(first_tile, self._along_k)
        elif plan.form == "direct":
            self._each_tile(first_tile, self._direct)
        elif plan.depth == p.depth:
            self._packed(first_row, first_tile)
        else:
            self._packed_in_parts(first_row, first_tile)

    # -- iteration over tiles of columns and rows

    def _each_tile(self, first: Affine, body: Callable[[Affine, Affine, int], None]) -> None:
        """`body(number in the step, first column, columns)` for the tiles of this step."""
        e, b, p, plan = self.e, self.b, self.p, self.plan
        width, panels = plan.tile_columns, plan.panels
        full, rest = divmod(p.columns, width)
        tiles = full + (1 if rest else 0)
        if first.is_constant and panels >= tiles:
            for_full = (0, full)
            if full:
                e.loop(for_full[1], (), lambda t: (body(t, t.times(width), width), ())[1], lower=0)
            if rest:
                body(constant(full), constant(full * width), rest)
            return
        start = e.scalar(first)
        end = b.binary("add", start, b.index(panels))
        if full:
            upper = b.binary("minimum", end, b.index(full))

            def one(t: Value) -> Sequence[Value]:
                tile = e.indices.scalar(t, 0, full - 1)
                body(tile.plus(first.times(-1)), tile.times(width), width)
                return ()

            e.for_(start, upper, 1, (), one)
        if rest:
            lower = b.binary("maximum", start, b.index(full))
            upper = b.binary("minimum", end, b.index(tiles))

            def last(t: Value) -> Sequence[Value]:
                # One trip at most, but the number in the step is not known statically.
                number = e.indices.scalar(b.binary("subtract", t, start), 0, panels - 1)
                body(number, constant(full * width), rest)
                return ()

            e.for_(lower, upper, 1, (), last)

    def _each_row(self, first: Affine, body: Callable[[Affine, Affine, int], None]) -> None:
        """`body(row within the step, row, rows)` for the row tiles of this step."""
        e, b, p, plan = self.e, self.b, self.p, self.plan
        height = plan.tile_rows
        full = p.rows - p.rows % height
        if first.is_constant and plan.rows >= p.rows:
            e.loop(full, (), lambda m: (body(m, m, height), ())[1], step=height)
            if full < p.rows:
                body(constant(full), constant(full), p.rows - full)
            return
        start = e.scalar(first)
        end = b.binary("add", start, b.index(plan.rows))
        if full:
            upper = b.binary("minimum", end, b.index(full))

            def one(m: Value) -> Sequence[Value]:
                row = e.indices.scalar(m, 0, full - height)
                body(row.plus(first.times(-1)), row, height)
                return ()

            e.for_(start, upper, height, (), one)
        if full < p.rows:
            lower = b.binary("maximum", start, b.index(full))
            upper = b.binary("minimum", end, b.index(p.rows))

            def last(m: Value) -> Sequence[Value]:
                number = e.indices.scalar(b.binary("subtract", m, start), 0, plan.rows - 1)
                body(number, constant(full), p.rows - full)
                return ()

            e.for_(lower, upper, height, (), last)

    # -- the packed form

    def _packed(self, first_row: Affine, first_tile: Affine) -> None:
        p, plan, b = self.p, self.plan, self.b
        panels = b.alloc(p.of, plan.panels * plan.depth * plan.tile_columns)
        self._pack_b(panels, first_tile, constant(0))
        scratch = self._a_scratch()

        def rows(_: Affine, m: Affine, height: int) -> None:
            a = self._pack_a(scratch, m, height, constant(0))

            def tile(number: Affine, n: Affine, width: int) -> None:
                acc = b.constant(p.of, 0, (height, self._padded(width)))
                acc = self._multiply(acc, a, panels, number, height, width)
                self._finish(acc, m, n, height, width)

            self._each_tile(first_tile, tile)

        self._each_row(first_row, rows)

    def _packed_in_parts(self, first_row: Affine, first_tile: Affine) -> None:
        """K in several parts, with partial sums in a scratch."""
        e, p, plan, b = self.e, self.p, self.plan, self.b
        columns = plan.panels * plan.tile_columns
        height_all = -(-plan.rows // plan.tile_rows) * plan.tile_rows
        panels = b.alloc(p.of, plan.depth * columns)
        partial = b.alloc(p.of, height_all * columns)
        scratch = self._a_scratch()
        e.tile = (plan.tile_columns,)
        zero = b.constant(p.of, 0, e.tile)
        e.loop(
            height_all * columns,
            (),
            lambda k: (b.store(partial, e.scalar(k), zero, (1,)), ())[1],
            step=plan.tile_columns,
        )

        def place(number: Affine, row: Affine) -> Value:
            return e.scalar(row.times(columns).plus(number.times(plan.tile_columns)))

        def part(k: Affine) -> Sequence[Value]:
            self._pack_b(panels, first_tile, k)

            def rows(row: Affine, m: Affine, height: int) -> None:
                a = self._pack_a(scratch, m, height, k)

                def tile(number: Affine, n: Affine, width: int) -> None:
                    at = place(number, row)
                    shape = (height, self._padded(width))
                    acc = b.load(partial, at, shape, (columns, 1))
                    acc = self._multiply(acc, a, panels, number, height, width)
                    b.store(partial, at, acc, (columns, 1))

                self._each_tile(first_tile, tile)

            self._each_row(first_row, rows)
            return ()

        e.loop(p.depth, (), part, step=plan.depth)

        def rows(row: Affine, m: Affine, height: int) -> None:
            def tile(number: Affine, n: Affine, width: int) -> None:
                shape = (height, self._padded(width))
                acc = b.load(partial, place(number, row), shape, (columns, 1))
                self._finish(acc, m, n, height, width)

            self._each_tile(first_tile, tile)

        self._each_row(first_row, rows)

    def _padded(self, width: int) -> int:
        """A width rounded up to whole vectors."""
        lanes = max(self.e.vector_bytes // max(self.p.of.size_bytes, 1), 1)
        return -(-width // lanes) * lanes

    def _pack_b(self, panels: Value, first_tile: Affine, k0: Affine) -> None:
        """B for the tiles of this step: for each k the columns of a tile side by side."""
        e, p, plan, b = self.e, self.p, self.plan, self.b
        stride = plan.tile_columns

        def tile(number: Affine, n: Affine, width: int) -> None:
            base = number.times(plan.depth * stride)
            if p.b_lanes == "k" and len(p.depths) == 1:
                self._pack_turned(panels, base, n, width, k0)
                return

            def one(k: Affine) -> Sequence[Value]:
                e.tile = (width,) if width > 1 else ()
                column = n.plus(e.indices.lane(0, width, 1))
                digits = e.indices.digits(k.plus(k0), p.depths)
                value = b.broadcast(p.b(e, self.batch, column, digits), (width,))
                if width != self._padded(width):
                    value = self._widened(value, width)
                b.store(panels, e.scalar(base.plus(k.times(stride))), value, (1,))
                return ()

            e.loop(plan.depth, (), one)

        self._each_tile(first_tile, tile)

    def _widened(self, value: Value, width: int) -> Value:
        """A row of lanes with zeros behind, up to whole vectors."""
        b = self.b
        rest = self._padded(width) - width
        return b.concatenate([value, b.constant(value.dtype, 0, (rest,))], 0)

    def _pack_turned(self, panels: Value, base: Affine, n: Affine, width: int, k0: Affine) -> None:
        """B stored along K: small squares are turned in registers."""
        e, p, plan, b = self.e, self.p, self.plan, self.b
        lanes = max(e.vector_bytes // max(p.of.size_bytes, 4), 1)
        stride = plan.tile_columns
        for start in range(0, width, lanes):
            columns = min(lanes, width - start)

            def squares(k: Affine, deep: int, start: int = start, columns: int = columns) -> None:
                e.tile = (deep, columns)
                row = k.plus(e.indices.lane(0, deep, 2))
                column = n.plus(start).plus(e.indices.lane(1, columns, 2))
                digits = e.indices.digits(row.plus(k0), p.depths)
                value = b.broadcast(p.b(e, self.batch, column, digits), (deep, columns))
                if columns != lanes:
                    filler = b.constant(value.dtype, 0, (deep, lanes - columns))
                    value = b.concatenate([value, filler], 1)
                at = base.plus(k.times(stride)).plus(start)
                b.store(panels, e.scalar(at), value, (stride, 1))

            full = plan.depth - plan.depth % lanes
            e.loop(full, (), lambda k, f=squares: (f(k, lanes), ())[1], step=lanes)
            if full < plan.depth:
                squares(constant(full), plan.depth - full)

    def _a_scratch(self) -> Value | None:
        p, plan = self.p, self.plan
        if p.direct_a and p.a_lanes == "k":
            return None
        return self.b.alloc(p.of, plan.tile_rows * plan.depth)

    def _pack_a(self, scratch: Value | None, m: Affine, height: int, k0: Affine) -> A:
        """Rows of A for one tile of rows, as something to read scalars from."""
        e, p, plan, b = self.e, self.p, self.plan, self.b
        if scratch is None:
            return A(None, m, k0, 0, 0)
        if p.a_lanes == "m":

            def column(k: Affine) -> Sequence[Value]:
                e.tile = (height,) if height > 1 else ()
                row = m.plus(e.indices.lane(0, height, 1))
                digits = e.indices.digits(k.plus(k0), p.depths)
                value = b.broadcast(p.a(e, self.batch, row, digits), e.tile)
                at = e.scalar(k.times(plan.tile_rows))
                b.store(scratch, at, value, (1,) if height > 1 else ())
                return ()

            e.loop(plan.depth, (), column)
            return A(scratch, m, k0, 1, plan.tile_rows)
        inner = min(p.depths[-1], plan.depth)
        lanes = min(max(e.vector_bytes // max(p.of.size_bytes, 1), 1) * 2, inner)

        def row(r: Affine) -> Sequence[Value]:
            def piece(o: Affine) -> Sequence[Value]:
                def some(k: Affine, width: int) -> tuple[Value, ...]:
                    e.tile = (width,) if width > 1 else ()
                    within = o.times(inner).plus(k).plus(e.indices.lane(0, width, 1))
                    digits = e.indices.digits(within.plus(k0), p.depths)
                    value = b.broadcast(p.a(e, self.batch, m.plus(r), digits), e.tile)
                    at = r.times(plan.depth).plus(o.times(inner)).plus(k)
                    b.store(scratch, e.scalar(at), value, (1,) if width > 1 else ())
                    return ()

                full = inner - inner % lanes
                e.loop(full, (), lambda k: some(k, lanes), step=lanes)
                if full < inner:
                    some(constant(full), inner - full)
                return ()

            e.loop(plan.depth // inner, (), piece)
            return ()

        e.loop(height, (), row)
        return A(scratch, m, k0, plan.depth, 1)

    def _multiply(
        self, acc: Value, a: A, panels: Value, number: Affine, height: int, width: int
    ) -> Value:
        """The accumulator after all of the packed depth."""
        e, p, plan, b = self.e, self.p, self.plan, self.b
        stride, padded = plan.tile_columns, self._padded(width)
        base = number.times(plan.depth * stride)

        def some(k: Affine, deep: int, total: Value) -> Value:
            if a.scratch is None:
                e.tile = (height, deep)
                row = a.row.plus(e.indices.lane(0, height, 2))
                digits = [k.plus(a.depth).plus(e.indices.lane(1, deep, 2))]
                left = b.broadcast(p.a(e, self.batch, row, digits), e.tile)
            else:
                at = e.scalar(k.times(a.k_stride))
                left = b.load(a.scratch, at, (height, deep), (a.m_stride, a.k_stride))
            where = e.scalar(base.plus(k.times(stride)))
            right = b.load(panels, where, (deep, padded), (stride, 1))
            return b.dot(total, left, right)

        deep = UNROLL_DEPTH if plan.depth >= UNROLL_DEPTH else plan.depth
        full = plan.depth - plan.depth % deep
        [acc] = e.loop(full, (acc,), lambda k, x: (some(k, deep, x),), step=deep)
        if full < plan.depth:
            acc = some(constant(full), plan.depth - full, acc)
        return acc

    # -- few rows

    def _direct(self, _: Affine, n: Affine, width: int) -> None:
        """B is read where it stands; every row of A meets it in registers."""
        e, p, b = self.e, self.p, self.b
        height = p.rows
        e.tile = (height, width)
        row = e.indices.lane(0, height, 2)
        column = n.plus(e.indices.lane(1, width, 2))

        def step(k: Affine, total: Value) -> Sequence[Value]:
            e.tile = (height, width)
            digits = e.indices.digits(k, p.depths)
            left = b.broadcast(p.a(e, self.batch, row, digits), (height, 1))
            right = b.broadcast(p.b(e, self.batch, column, digits), (1, width))
            return (b.dot(total, left, right),)

        acc = b.constant(p.of, 0, (height, width))
        [acc] = e.loop(p.depth, (acc,), step)
        self._finish(acc, constant(0), n, height, width)

    def _along_k(self, _: Affine, n: Affine, width: int) -> None:
        """Vectors along K for a few columns; one accumulator per row."""
        e, p, b = self.e, self.p, self.b
        lanes = max(e.vector_bytes // max(p.of.size_bytes, 1), 1)
        inner = p.depths[-1]
        lanes = min(lanes, inner)
        outer = prod(p.depths[:-1])
        sums = [b.constant(p.of, 0, (width, lanes)) for _ in range(p.rows)]

        def step(k: Affine, deep: int, totals: Sequence[Value]) -> list[Value]:
            e.tile = (width, deep)
            column = n.plus(e.indices.lane(0, width, 2))
            digits = e.indices.digits(k.plus(e.indices.lane(1, deep, 2)), p.depths)
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
            return e.loop(
                full, totals, lambda k, *x: step(o.times(inner).plus(k), lanes, x), step=lanes
            )

        sums = list(e.loop(outer, sums, rows))
        results = [b.reduce(x, 1, "add") for x in sums]
        if full < inner:

            def tails(o: Affine, *totals: Value) -> Sequence[Value]:
                zero = [b.constant(p.of, 0, (width, inner - full)) for _ in totals]
                found = step(o.times(inner).plus(full), inner - full, zero)
                return [b.binary("add", x, b.reduce(y, 1, "add")) for x, y in zip(totals, found)]

            results = list(e.loop(outer, results, tails))
        for m, x in enumerate(results):
            self._finish(b.reshape(x, (1, width)), constant(m), n, 1, width)

    # -- what follows

    def _finish(self, acc: Value, m: Affine, n: Affine, height: int, width: int) -> None:
        """Convert, run what follows the product on the tile, and store."""
        e, p, b = self.e, self.p, self.b
        if acc.shape[1] != width:
            acc = b.slice(acc, 1, 0, width)
        if (height, width) == (1, 1):
            e.tile, acc = (), b.reshape(acc, ())
            row, column = m, n
        else:
            e.tile = (height, width)
            row = m.plus(e.indices.lane(0, height, 2))
            column = n.plus(e.indices.lane(1, width, 2))
        at = p.index(e, self.batch, row, column)
        value = b.convert(acc, p.hero.shape.dtype)
        e.given[p.hero] = value
        e.floor = b.depth
        e.forget(b.depth)
        stores = []
        for (root, _), target in zip(self.frame.body.roots, self.frame.outputs):
            where = at
            if root.shape.dims != p.hero.shape.dims:
                where = reshaped(e, at, p.hero.shape.dims, root.shape.dims)
            stores.append((target, where, e.value(root, where)))
        for target, where, x in stores:
            e.store(target, where, x)
        e.floor = 0
        del e.given[p.hero]
        e.forget(b.depth)


@dataclass
class A:
    """Rows of A for one tile: in a scratch with strides, or where they stand."""

    scratch: Value | None
    row: Affine
    depth: Affine
    m_stride: int
    k_stride: int
