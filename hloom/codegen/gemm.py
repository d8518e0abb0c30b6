"""Kernels for products of matrices: packed panels, and a tile of the result in registers.

A step of the grid owns some panels of columns and some tiles of rows. It packs its part of B into
panels that stay in the second-level cache, packs a few rows of A at a time unless they can be read
where they stand, and keeps a tile of C in registers for the whole depth, summed in blocks
(`blocked_fold.py`). What follows the product (bias, activation, residual) is computed on the tile
row by row before it is stored.

There is one piece of code for all tiles: where rows or columns do not divide, the last tile is
moved back so that it ends with the matrix, and only what no other tile has is stored (a tile
stored twice would be wrong where the result overwrites what the epilogue reads). Few rows need no
packing (`gemm_skinny.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.blocked_fold import DEEP_RUN, FEW_RUN, TILE_RUN, blocked_loop, sum_restart
from hloom.codegen.elements import Elements, Index
from hloom.codegen.epilogue import followed, index_steps
from hloom.codegen.gemm_pack import Packer, Part, RowsOfA
from hloom.codegen.gemm_tiling import GemmTiling
from hloom.codegen.lines_ahead import lines_ahead, rows_ahead
from hloom.codegen.product import Product
from hloom.codegen.tile import Body, Emitted, KernelEmitter
from hloom.codegen.window_reader import RowsOfWindow
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value

# An epilogue of more instructions is written once for a row, not for a whole tile.
WHOLE_TILE_WORK = 4


def product_kernel(body: Body, p: Product, device: Device) -> Emitted:
    """The kernel of a body whose anchor is a product."""
    from hloom.codegen.gemm_skinny import SkinnyWriter

    tiling = GemmTiling.of(p, device)
    emitter = KernelEmitter(body, (p.batch, tiling.chunks, tiling.blocks), device)
    if p.batch * p.rows * p.columns:
        if tiling.form == "packed":
            PackedWriter(emitter, p, tiling).write()
        else:
            SkinnyWriter(emitter, p, tiling).write()
    return emitter.finish()


class Finish:
    """Writes what follows a product, for some elements of it."""

    def __init__(self, emitter: KernelEmitter, anchor: Instruction) -> None:
        self.emitter, self.anchor = emitter, anchor
        self.e: Elements = emitter.elements
        self.b = emitter.builder
        self.batch = ZERO
        steps = index_steps(emitter.body, anchor)
        assert steps is not None, "the caller has looked"
        self.index_steps = steps

    def finish_at(self, acc: Value, at: Index) -> None:
        """Convert, run what follows on the tile of `acc` at an index, and store."""
        e, b, anchor = self.e, self.b, self.anchor
        e.supplied[anchor] = b.convert(acc, anchor.shape.dtype)
        e.floor = b.depth
        e.forget(b.depth)
        stores = []
        for (root, _), target in zip(self.emitter.body.roots, self.emitter.outputs):
            where = followed(e, self.index_steps, at)
            stores.append((target, where, e.value(root, where)))
        for target, where, x in stores:
            e.store(target, where, x)
        e.floor = 0
        del e.supplied[anchor]
        e.forget(b.depth)


class ProductFinish(Finish):
    """Writes what follows a product of matrices."""

    def __init__(self, emitter: KernelEmitter, p: Product) -> None:
        super().__init__(emitter, p.anchor)
        self.p = p

    def finish(self, acc: Value, m: Affine, n: Affine, height: int, width: int) -> None:
        """What follows, on a tile of rows and columns."""
        e = self.e
        if height == 1:
            e.tile = (width,) if width > 1 else ()
            acc, row = self.b.reshape(acc, e.tile), m
            column = n.plus(e.indices.lane(0, width, 1))
        else:
            e.tile = (height, width)
            row = m.plus(e.indices.lane(0, height, 2))
            column = n.plus(e.indices.lane(1, width, 2))
        self.finish_at(acc, self.p.index(e, self.batch, row, column))


class PackedWriter(ProductFinish):
    """Writes one step of a product in the packed form."""

    def __init__(self, emitter: KernelEmitter, p: Product, tiling: GemmTiling) -> None:
        super().__init__(emitter, p)
        self.tiling = tiling
        self.packer = Packer(self.e, p, tiling)
        self.tiles = -(-p.columns // tiling.width)
        self.per_group = -(-p.rows // tiling.height)
        self.row_tiles = p.row_groups * self.per_group
        self.number = ZERO
        """Of the tile of rows, among those of its step."""

    def write(self) -> None:
        """The step."""
        e, p, tiling, grid = self.e, self.p, self.tiling, self.b.grid_indices
        self.batch = self.packer.batch = e.indices.scalar(grid[0], 0, p.batch - 1)
        first = e.indices.scalar(grid[1], 0, tiling.chunks - 1).times(tiling.row_tiles)
        last = self.packer.least(first.plus(tiling.row_tiles), self.row_tiles)
        tile = e.indices.scalar(grid[2], 0, tiling.blocks - 1).times(tiling.panels)
        end = self.packer.least(tile.plus(tiling.panels), self.tiles)
        count = end.plus(tile.times(-1))
        panels = self.packer.panels_of_b()
        scratch = self.packer.a_scratch()
        if self.packer.window is not None:
            self.packer.window.begin(first, last)
        if self.packer.depth == p.depth:
            self._whole(panels, scratch, first, last, tile, count)
        else:
            self._in_parts(panels, scratch, first, last, tile, count)

    def _whole(
        self,
        panels: Value,
        scratch: Value | None,
        first: Affine,
        last: Affine,
        tile: Affine,
        count: Affine,
    ) -> None:
        """All of K at once: a tile is finished as soon as it is computed."""
        p, tiling, b = self.p, self.tiling, self.b
        direct = self._finishes_at_once()
        results = None if direct else b.alloc(p.of, tiling.height * tiling.width)

        def part(k: Part) -> None:
            self.packer.begin_part(panels, tile, count, k)

            def rows(t: Affine) -> None:
                m, skipped = self._begin_rows(t, first)
                a = self.packer.rows_of_a(scratch, m, k)

                def one(number: Affine) -> None:
                    acc = self._multiply(a, panels, number, k)
                    n = self.packer.first_column(tile.plus(number))
                    if results is None:
                        self.finish(acc, m, n, tiling.height, tiling.width)
                        return
                    b.store(results, b.index(0), acc, (tiling.width, 1))
                    self._finish_rows(results, ZERO, m, skipped, tile.plus(number), n)

                self.packer.each(ZERO, count, 1, one)

            self.packer.each(first, last, 1, rows)

        self.packer.parts(part)

    def _in_parts(
        self,
        panels: Value,
        scratch: Value | None,
        first: Affine,
        last: Affine,
        tile: Affine,
        count: Affine,
    ) -> None:
        """K in several parts, with partial sums in a scratch."""
        e, p, tiling, b = self.e, self.p, self.tiling, self.b
        size = tiling.height * tiling.width
        total = tiling.row_tiles * tiling.panels * size
        partial = b.alloc(p.of, total)
        e.tile = (tiling.width,)
        zero = b.constant(p.of, 0, e.tile)

        def clear(k: Affine) -> None:
            b.store(partial, e.scalar(k), zero, (1,))

        self.packer.each(ZERO, constant(total), tiling.width, clear)

        def place(t: Affine, number: Affine) -> Affine:
            return t.plus(first.times(-1)).times(tiling.panels).plus(number).times(size)

        def part(k: Part) -> None:
            self.packer.begin_part(panels, tile, count, k)

            def rows(t: Affine) -> None:
                m, _ = self._begin_rows(t, first)

                def add(_: Affine) -> None:
                    a = self.packer.rows_of_a(scratch, m, k)

                    def one(number: Affine) -> None:
                        at = e.scalar(place(t, number))
                        shape, strides = (tiling.height, tiling.width), (tiling.width, 1)
                        acc = self._multiply(a, panels, number, k)
                        acc = b.binary("add", b.load(partial, at, shape, strides), acc)
                        b.store(partial, at, acc, strides)

                    self.packer.each(ZERO, count, 1, one)

                self.packer.each(ZERO, self._times(m, k), 1, add)

            self.packer.each(first, last, 1, rows)

        self.packer.parts(part)

        def finish(t: Affine) -> None:
            m, skipped = self._first_row(t)

            def one(number: Affine) -> None:
                n = self.packer.first_column(tile.plus(number))
                at = place(t, number)
                self._finish_rows(partial, at, m, skipped, tile.plus(number), n)

            self.packer.each(ZERO, count, 1, one)

        self.packer.each(first, last, 1, finish)

    def _times(self, m: Affine, k: Part) -> Affine:
        """Once, or not at all, where all that a tile of rows has in a part of K is padding."""
        touches, b, any_row = self.p.touches, self.b, None
        if touches is None:
            return constant(1)
        tiling, places = self.tiling, k.prefix
        if tiling.piece == 1 and tiling.split < len(self.p.depths) - 1:
            places = [*places, k.low]
        for r in range(tiling.height):
            inside = touches(self.e, m.plus(r), places)
            if inside is None:
                return constant(1)
            any_row = inside if any_row is None else b.binary("or", any_row, inside)
        assert any_row is not None
        return self.e.indices.scalar(b.select(any_row, b.index(1), b.index(0)), 0, 1)

    def _begin_rows(self, t: Affine, first: Affine) -> tuple[Affine, Affine]:
        """`_first_row` of a tile of the step whose first one is given, which is the current one."""
        number = self.e.scalar(t.plus(first.times(-1)))
        self.number = self.e.indices.scalar(number, 0, self.tiling.row_tiles - 1)
        return self._first_row(t)

    def _first_row(self, t: Affine) -> tuple[Affine, Affine]:
        """The first row of a tile of rows, and how many of its rows another tile has."""
        e, p, height = self.e, self.p, self.tiling.height
        group, number = e.indices.digits(t, [p.row_groups, self.per_group])
        start = number.times(height)
        if p.rows % height == 0:
            return group.times(p.rows).plus(start), ZERO
        row = self.packer.least(start, p.rows - height, says_step=False)
        skipped = start.plus(row.times(-1))
        if not skipped.is_constant:
            skipped = e.indices.scalar(e.scalar(skipped), 0, height - 1)
        return group.times(p.rows).plus(row), skipped

    # -- multiplying

    def _multiply(self, a: RowsOfA | RowsOfWindow, panels: Value, number: Affine, k: Part) -> Value:
        """The sums of the packed part of K."""
        e, tiling, b = self.e, self.tiling, self.b
        panels, base, across = self.packer.panel_place(panels, number, k)
        height, width, group = tiling.height, tiling.width, self.p.packing.group
        acc = b.constant(self.p.of, 0, (height, width))
        if isinstance(a, RowsOfWindow):
            assert self.packer.window is not None
            return self.packer.window.sums(a, panels, base, across, k, acc)
        if self.packer.corrections is not None:
            at = e.scalar(number.times(width))
            too_much = b.load(self.packer.corrections, at, (1, width), (width, 1))
            acc = b.binary("subtract", acc, b.broadcast(too_much, (height, width)))

        if self.p.packing.tile_depth:
            return self._multiply_tiles(a, panels, base, across, acc, k)

        def step(x: Affine, total: Value) -> Value:
            at = e.scalar(a.offset.plus(x.times(group * a.depth_stride)))
            left = b.load(a.buffer, at, (height, group), (a.row_stride, 1))
            where = e.scalar(base.plus(x.times(group * across)))
            strides = (across, 1) if group == 1 else (1, group)
            right = b.load(panels, where, (group, width), strides)
            total = b.dot(total, left, right)
            if lines:
                b.prefetch(panels, where, lines, nearest=True)
            return total

        def body(x: Affine, total: Value) -> tuple[Value, ...]:
            if ask is not None:
                ask(x)
            return (step(x, total),)

        ask = lines_ahead(e, self.p, tiling, self.packer.depth, panels, base, self.number)
        lines = rows_ahead(e, self.p, tiling, self.packer.depth, across)
        length, restart = k.length, sum_restart(e, [acc])
        if group > 1:
            # Rows that are read where they stand have no zeros behind them: parts are whole groups.
            rest = 0 if self.p.direct_a is not None else group - 1
            length = e.indices.quotient(length.plus(rest), group)
        depth = length.const if length.is_constant else -(-self.packer.depth // group)
        upper = None if length.is_constant else e.scalar(length)
        # A product of complex numbers is added in two steps.
        chain = 2 if acc.dtype.is_complex else 1
        run = FEW_RUN if tiling.leaves_registers(acc.dtype, e.device) else DEEP_RUN
        [acc] = blocked_loop(e, depth, (acc,), body, restart, chain=chain, run=run, upper=upper)
        return acc

    def _multiply_tiles(
        self, a: RowsOfA, panels: Value, base: Affine, across: int, acc: Value, k: Part
    ) -> Value:
        """The same by whole tiles; K is filled up with zeros, on both sides."""
        e, b, packing = self.e, self.b, self.p.packing
        (height, width), depth, group = acc.shape, packing.tile_depth, packing.group

        def body(x: Affine, total: Value) -> tuple[Value, ...]:
            at = e.scalar(a.offset.plus(x.times(depth)))
            left = b.load(a.buffer, at, (height, depth), (a.row_stride, 1))
            if ask is not None:
                ask(x.times(depth))
            where = e.scalar(base.plus(x.times(depth * across)))
            shape, strides = (depth // group, group, width), (group * across, 1, group)
            return (b.dot(total, left, b.load(panels, where, shape, strides)),)

        ask = lines_ahead(e, self.p, self.tiling, self.packer.depth, panels, base, self.number)
        length = e.indices.quotient(k.length.plus(depth - 1), depth)
        steps = length.const if length.is_constant else -(-self.packer.depth // depth)
        upper = None if length.is_constant else e.scalar(length)
        chain, restart = depth // group, sum_restart(e, [acc])
        run = TILE_RUN
        [acc] = blocked_loop(e, steps, (acc,), body, restart, chain=chain, run=run, upper=upper)
        return acc

    # -- what follows

    def _finishes_at_once(self) -> bool:
        """Whether what follows is written for whole tiles, straight from registers."""
        p, tiling = self.p, self.tiling
        if p.rows % tiling.height or p.columns % tiling.width:
            return False
        after = [x for x in self.emitter.body.instructions if x is not p.anchor]
        if p.packing.tile_depth:  # from tile registers as they are, or row by row
            return not after and p.anchor.shape.dtype is p.of
        return len(after) <= WHOLE_TILE_WORK

    def _finish_rows(
        self, results: Value, at: Affine, m: Affine, skipped: Affine, tile: Affine, n: Affine
    ) -> None:
        """Finish a tile that lies in memory, row by row, without what other tiles have."""
        e, p, tiling, b = self.e, self.p, self.tiling, self.b

        def rows(begin: int, width: int, moved: bool = False) -> Callable[[Affine], None]:
            def row(r: Affine) -> None:
                place = e.scalar(at.plus(r.times(tiling.width)).plus(begin if moved else 0))
                shape = (width,) if width > 1 else ()
                value = b.load(results, place, shape, (1,) if width > 1 else ())
                self.finish(value, m.plus(r), n.plus(begin), 1, width)

            return row

        each, height = self.packer.each, constant(tiling.height)
        rest = p.columns % tiling.width
        if p.columns <= tiling.width:
            each(skipped, height, 1, rows(0, p.columns))
        elif rest == 0:
            each(skipped, height, 1, rows(0, tiling.width))
        else:
            # The last tile stores its last columns only; one of the two loops is empty.
            full = b.compare("LT", e.scalar(tile), b.index(self.tiles - 1))
            middle = b.select(full, b.index(tiling.height), e.scalar(skipped))
            border = e.indices.scalar(middle, 0, tiling.height)
            each(skipped, border, 1, rows(0, tiling.width))
            each(border, height, 1, rows(tiling.width - rest, rest, p.b_panels is None))
