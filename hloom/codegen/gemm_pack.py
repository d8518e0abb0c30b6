"""Packing for products of matrices: parts of A and B as the multiplication reads them.

Packed B is a row of panels, each with the columns of one tile side by side for every k. Packed A is
one tile of rows, rows after rows where memory runs along K, else for every k the rows side by side.
The last vector of a run is moved back so that it ends with the run: what is packed twice is equal,
and one piece of code serves every length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.bounded_runs import Runs
from hloom.codegen.elements import Elements
from hloom.codegen.gemm_groups import (
    clear_rest_of_a,
    column_sums,
    columns_in_groups,
    pack_groups,
    rows_from_columns,
)
from hloom.codegen.gemm_row import pack_row
from hloom.codegen.gemm_tiling import GemmTiling
from hloom.codegen.product import Product
from hloom.codegen.window_reader import RowsOfWindow, WindowReader
from hloom.kernel.kernel import Value

# Rows and columns of a square that is turned in registers.
SQUARE = 8


@dataclass
class Part:
    """A part of K: all digits of `prefix` fixed, the next one between `low` and `high`."""

    prefix: list[Affine]
    low: Affine
    high: Affine
    unit: int
    """Elements of K for each step of that digit."""

    @property
    def length(self) -> Affine:
        """Elements of K in the part."""
        return self.high.plus(self.low.times(-1)).times(self.unit)

    def start(self, depths: Sequence[int]) -> Affine:
        """The number of the first element in all of K."""
        total = ZERO
        for x, size in zip(self.prefix, depths):
            total = total.times(size).plus(x)
        size = depths[len(self.prefix)]
        return total.times(size).plus(self.low).times(self.unit)


@dataclass
class RowsOfA:
    """Rows of A for one tile: memory with strides along rows and along K."""

    buffer: Value
    offset: Affine
    row_stride: int
    depth_stride: int


class Packer(Runs):
    """Writes the packing loops of one kernel."""

    def __init__(self, e: Elements, p: Product, tiling: GemmTiling) -> None:
        self.e, self.p, self.tiling, self.b = e, p, tiling, e.builder
        self.batch = ZERO
        self.first_tile = ZERO
        self.corrections: Value | None = None
        self.window = WindowReader(self, p.window) if p.window is not None else None
        self.depth = tiling.piece * prod(p.depths[tiling.split + 1 :])
        size, group, step = p.element_bytes, p.packing.group, p.packing.step
        padded = -(-self.depth // step) * step
        # Rows or panels that are powers of two apart would all want the same places of the cache.
        self.a_stride = padded + (tiling.lanes * group if padded * size % 1024 == 0 else 0)
        self.panel = padded * tiling.width
        self.panel += tiling.width * group if self.panel * size % 1024 == 0 else 0

    # -- parts of K

    @property
    def fills_last_step(self) -> bool:
        """Whether some part of K ends within elements that one instruction multiplies."""
        p, step = self.p, self.p.packing.step
        return self.depth % step > 0 or prod(p.depths[self.tiling.split :]) % step > 0

    def whole(self) -> Part:
        """All of K as one part."""
        depths = self.p.depths
        return Part([], ZERO, constant(depths[0]), prod(depths[1:]))

    def parts(self, body: Callable[[Part], None]) -> None:
        """`body` for each part of K."""
        e, p, tiling = self.e, self.p, self.tiling
        size = p.depths[tiling.split]
        unit = prod(p.depths[tiling.split + 1 :])
        outer = p.depths[: tiling.split]

        def one(o: Affine) -> tuple[Value, ...]:
            prefix = e.indices.digits(o, outer)

            def piece(low: Affine) -> tuple[Value, ...]:
                if p.packing.group > 1:  # its length is divided: it must be known by itself
                    high = low.plus(self.least(constant(size).plus(low.times(-1)), tiling.piece))
                else:
                    high = self.least(low.plus(tiling.piece), size)
                body(Part(prefix, low, high, unit))
                return ()

            return e.loop(size, (), piece, step=tiling.piece)

        e.loop(prod(outer), (), one)

    def walk(self, part: Part, upto: int, body: Callable[[list[Affine], Affine], None]) -> None:
        """`body(digits, position)` for the digits before `upto`; the position within the part
        counts in units of digit `upto`."""
        depths = self.p.depths

        def level(d: int, digits: list[Affine], position: Affine) -> None:
            if d >= upto:
                body(digits, position)
                return
            low, high = ZERO, constant(depths[d])
            if d == len(part.prefix):
                low, high = part.low, part.high

            def one(x: Affine) -> None:
                at = position.times(depths[d]).plus(x.plus(low.times(-1)))
                level(d + 1, [*digits, x], at)

            self.each(low, high, 1, one)

        level(len(part.prefix), list(part.prefix), ZERO)

    def begin_part(self, panels: Value, first_tile: Affine, count: Affine, part: Part) -> None:
        """What all tiles of a step need for a part of K: panels, and the lines of an image."""
        self.pack_b(panels, first_tile, count, part)
        if self.window is not None:
            self.window.begin_part(part)

    # -- B

    def panel_place(self, panels: Value, number: Affine, part: Part) -> tuple[Value, Affine, int]:
        """Where a part of K begins in a panel of the step, and elements from one k to the next."""
        standing, width = self.p.b_panels, self.tiling.width
        if standing is None:
            return panels, number.times(self.panel), width
        column = self.first_tile.plus(number).times(width)
        count = standing.leaf.shape.dims[0]
        panel, within = self.e.indices.digits(column, [count, standing.width])
        at = panel.times(standing.stride).plus(within.times(self.p.packing.group))
        at = at.plus(part.start(self.p.depths).times(standing.width))
        return panels, at, standing.width

    def panels_of_b(self) -> Value:
        """Memory for the panels of a step, or that where they stand. Where the columns do not fill
        even one, what is beside them is zero: a product of what somebody left there could be one of
        subnormal numbers, which take a hundred times as long."""
        p, tiling, b = self.p, self.tiling, self.b
        if p.b_panels is not None:
            return self.e.sources[p.b_panels.leaf].buffer
        panels = b.alloc(p.b_type, self.panel * tiling.panels)
        padded = p.b_lanes != "k" and p.columns <= tiling.lanes and p.packing.group == 1
        if p.columns < tiling.width and not padded:
            run = tiling.width * p.packing.group
            zeros = b.constant(p.b_type, 0, (run,))

            def clear(k: Affine) -> None:
                b.store(panels, self.e.scalar(k.times(run)), zeros, (1,))

            self.each(ZERO, constant(-(-self.depth // p.packing.group)), 1, clear)
        return panels

    def _padded(self, value: Value) -> Value:
        """Columns that do not fill a vector, with zeros to one; as they are where they do."""
        (lanes,) = value.shape or (1,)
        rest = self.tiling.width - lanes
        if self.p.columns != lanes or rest <= 0:
            return value
        zeros = self.b.constant(value.dtype, 0, (rest,))
        return self.b.concatenate([self.b.reshape(value, (lanes,)), zeros], 0)

    def pack_b(self, panels: Value, first_tile: Affine, count: Affine, part: Part) -> None:
        """The panels of a step for a part of K."""
        self.first_tile = first_tile
        if self.p.packing.group > 1:
            if self.p.b_panels is None:
                pack_groups(self, panels, first_tile, count, part)
            if self.p.packing.biased:
                self.corrections = column_sums(self, panels, count, part)
            return
        if self.p.b_panels is not None:
            return
        if self.p.b_lanes == "k":
            self._turned(panels, first_tile, count, part)
            return
        p, tiling, e = self.p, self.tiling, self.e
        start = part.start(p.depths)
        pieces = self.pieces()

        def one(k: Affine) -> None:
            digits = e.indices.digits(start.plus(k), p.depths)

            def tile(t: Affine) -> None:
                n = self.first_column(first_tile.plus(t))
                base = t.times(self.panel).plus(k.times(tiling.width))
                for at, lanes in pieces:
                    e.tile = (lanes,) if lanes > 1 else ()
                    column = n.plus(at).plus(e.indices.lane(0, lanes, 1))
                    value = self.b.broadcast(p.b(e, self.batch, column, digits), e.tile)
                    value = self._padded(value)
                    place = e.scalar(base.plus(at))
                    self.b.store(panels, place, value, (1,) if value.shape else ())

            self.each(ZERO, count, 1, tile)

        self.each(ZERO, part.length, 1, one)

    def pieces(self) -> list[tuple[int, int]]:
        """Where in a panel whole vectors begin, and how wide they are."""
        columns, lanes, width = self.p.columns, self.tiling.lanes, self.tiling.width
        if columns >= width:
            return [(0, width)] if not self.p.of.is_complex else self._vectors(width, lanes)
        return self._vectors(columns, lanes)

    @staticmethod
    def _vectors(columns: int, lanes: int) -> list[tuple[int, int]]:
        if columns <= lanes:
            return [(0, columns)]
        vectors = [(at, lanes) for at in range(0, columns - lanes + 1, lanes)]
        if columns % lanes:
            vectors.append((columns - lanes, lanes))
        return vectors

    def first_column(self, tile: Affine) -> Affine:
        """The first column of a tile; the last one ends with the columns."""
        width, columns = self.tiling.width, self.p.columns
        if columns <= width:
            return ZERO
        start = tile.times(width)
        return self.least(start, columns - width) if columns % width else start

    def _turned(self, panels: Value, first_tile: Affine, count: Affine, part: Part) -> None:
        """B stored along K: small squares are turned in registers."""
        p, tiling, e = self.p, self.tiling, self.e
        inner = len(p.depths) - 1
        # Squares of half the vectors are as fast and far less code.
        lanes = min(max(e.device.compute.vector_bytes // max(p.of.size_bytes, 4), 1), SQUARE)
        across = min(lanes, p.columns, tiling.width)
        split_inner = inner == len(part.prefix)
        low = part.low if split_inner else ZERO
        high = part.high if split_inner else constant(p.depths[inner])
        deep = min(lanes, p.depths[inner])
        if split_inner and part.length.is_constant:
            deep = min(deep, part.length.const)  # else a square would begin before the part
        wide = min(tiling.width, p.columns)

        def tile(t: Affine) -> None:
            n = self.first_column(first_tile.plus(t))

            def outer(digits: list[Affine], position: Affine) -> None:
                def square(k: Affine) -> None:
                    def group(c: Affine) -> None:
                        e.tile = (deep, across)
                        row = k.plus(e.indices.lane(0, deep, 2))
                        column = n.plus(c).plus(e.indices.lane(1, across, 2))
                        value = p.b(e, self.batch, column, [*digits, row])
                        value = self.b.broadcast(value, e.tile)
                        at = position.times(p.depths[inner] if not split_inner else 1)
                        at = at.plus(k.plus(low.times(-1))).times(tiling.width)
                        place = e.scalar(t.times(self.panel).plus(at).plus(c))
                        self.b.store(panels, place, value, (tiling.width, 1))

                    self.each(ZERO, constant(wide), across, group)

                self.each(low, high, deep, square)

            self.walk(part, inner, outer)

        self.each(ZERO, count, 1, tile)

    # -- A

    def a_scratch(self) -> Value | None:
        """Memory for a tile of rows; None if A is read where it stands."""
        p, tiling = self.p, self.tiling
        if p.direct_a is not None or p.window is not None:
            return None
        return self.b.alloc(p.a_type, tiling.height * self.a_stride)

    def rows_of_a(self, scratch: Value | None, m: Affine, part: Part) -> RowsOfA | RowsOfWindow:
        """A tile of rows, packed if it must be."""
        p, tiling, e = self.p, self.tiling, self.e
        if self.window is not None:
            return self.window.rows_at(m)
        if scratch is None:
            assert p.direct_a is not None
            source, offset, along_rows, along_k = p.direct_a(e, self.batch, m)
            at = offset.plus(part.start(p.depths).times(along_k))
            return RowsOfA(source, at, along_rows, along_k)
        if p.packing.group > 1:
            clear_rest_of_a(self, scratch, part)
        if p.a_lanes == "m" and p.packing.tile_depth:
            rows_from_columns(self, scratch, m, part)
            return RowsOfA(scratch, ZERO, self.a_stride, 1)
        if p.a_lanes == "m" and p.packing.group > 1:
            columns_in_groups(self, scratch, m, part)
            return RowsOfA(scratch, ZERO, p.packing.group, tiling.height)
        if p.a_lanes == "m":
            self._columns_of_a(scratch, m, part)
            return RowsOfA(scratch, ZERO, 1, tiling.height)

        def row(r: Affine) -> None:
            pack_row(self, scratch, r, m.plus(r), part)

        self.each(ZERO, constant(tiling.height), 1, row)
        return RowsOfA(scratch, ZERO, self.a_stride, 1)

    def _columns_of_a(self, scratch: Value, m: Affine, part: Part) -> None:
        """For every k the rows side by side."""
        p, height, e = self.p, self.tiling.height, self.e

        def one(digits: list[Affine], position: Affine) -> None:
            e.tile = (height,) if height > 1 else ()
            row = m.plus(e.indices.lane(0, height, 1))
            value = self.b.broadcast(p.a(e, self.batch, row, digits), e.tile)
            at = e.scalar(position.times(height))
            self.b.store(scratch, at, value, (1,) if height > 1 else ())

        self.walk(part, len(p.depths), one)
