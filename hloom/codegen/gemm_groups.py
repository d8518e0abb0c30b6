"""Packing in groups of neighbours along K, as instructions for narrow types multiply them.

In a panel of B the elements of a group of rows stand side by side for each column; of A a row runs
along K, or each row's group stands beside the next row's. Where K is no multiple of the group the
last one is filled up with zeros, on both sides: zero times what somebody left there could be NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.packing import BIAS
from hloom.kernel.kernel import Value

if TYPE_CHECKING:
    from hloom.codegen.gemm_pack import Packer, Part

# Rows of a square that is turned in registers, and its columns.
DEEP = 16
ACROSS = 8


def pack_groups(
    packer: Packer, panels: Value, first_tile: Affine, count: Affine, part: Part
) -> None:
    """The panels of a step for a part of K, in groups."""
    _Groups(packer, panels, part).pack(first_tile, count)


class _Groups:
    """Writes the packing of B for one part of K."""

    def __init__(self, packer: Packer, panels: Value, part: Part) -> None:
        self.packer, self.panels, self.part = packer, panels, part
        self.e, self.b, self.p = packer.e, packer.b, packer.p
        self.group = self.p.packing.group
        self.row = packer.tiling.width * self.group
        self.full = self.e.indices.quotient(part.length, self.group)

    def pack(self, first_tile: Affine, count: Affine) -> None:
        """All panels of a step."""
        packer, p = self.packer, self.p

        def each(*bodies: Callable[[Affine, Affine], None]) -> None:
            """For each panel its first column, and where it begins."""

            def tile(t: Affine) -> None:
                for body in bodies:
                    body(packer.first_column(first_tile.plus(t)), t.times(packer.panel))

            packer.each(ZERO, count, 1, tile)

        before = [self._clear] if packer.fills_last_step else []
        after = [self._rest] if p.depth % self.group else []
        if p.b_lanes == "k":
            each(*before, self._turned, *after)
            return
        if before:
            each(*before)
        # Rows of B are read in long runs: all panels of a group before the next group.
        packer.each(ZERO, self.full, 1, lambda k: each(lambda n, at: self._straight(k, n, at)))
        if after:
            each(*after)

    def _clear(self, _: Affine, base: Affine) -> None:
        """Zeros in the last group, or in the groups of the last tile."""
        step = self.p.packing.step
        groups = step // self.group
        last = self.e.indices.quotient(self.part.length.plus(-1), step)
        zeros = self.b.constant(self.p.b_type, 0, (self.row,))

        def clear(k: Affine) -> None:
            at = base.plus(last.times(groups).plus(k).times(self.row))
            self.b.store(self.panels, self.e.scalar(at), zeros, (1,))

        self.packer.each(ZERO, constant(groups), 1, clear)

    def _straight(self, number: Affine, n: Affine, base: Affine) -> None:
        """A group of rows of a B that is stored along the columns, element by element in turn."""
        e = self.e
        k = self.part.start(self.p.depths).plus(number.times(self.group))
        for at, lanes in self.packer.pieces():
            e.tile = (self.group, lanes)
            row = k.plus(e.indices.lane(0, self.group, 2))
            column = n.plus(at).plus(e.indices.lane(1, lanes, 2))
            self._store(base.plus(number.times(self.row)).plus(at * self.group), column, row)

    def _store(self, at: Affine, column: Affine, row: Affine) -> None:
        e, p = self.e, self.p
        digits = e.indices.digits(row, p.depths)
        value = self.b.broadcast(p.b(e, self.packer.batch, column, digits), e.tile)
        self.b.store(self.panels, e.scalar(at), value, (1, self.group))

    def _turned(self, n: Affine, base: Affine) -> None:
        """B stored along K: small squares are turned in registers."""
        e, p, group = self.e, self.p, self.group
        length = p.depth if self.part.length.is_constant else self.packer.depth
        wide = min(self.packer.tiling.width, p.columns)
        across = min(ACROSS, wide)
        deep = min(DEEP, length - length % group)
        if not self.part.length.is_constant:
            # The last part has at least two vectors of sums.
            deep = min(deep, 2 * self.packer.tiling.lanes // group * group)
        if len(p.depths) > 1:  # a square stays within the last digit
            deep = max([d for d in (16, 8, 4, 2) if p.depths[-1] % d == 0 and d <= deep])
        if deep == 0:
            return
        start, even = self.part.start(p.depths), self.full.times(group)

        def square(k: Affine) -> None:
            def some(c: Affine) -> None:
                e.tile = (deep, across)
                row = start.plus(k).plus(e.indices.lane(0, deep, 2))
                column = n.plus(c).plus(e.indices.lane(1, across, 2))
                value = p.b(e, self.packer.batch, column, e.indices.digits(row, p.depths))
                value = self.b.reshape(
                    self.b.broadcast(value, e.tile), (deep // group, group, across)
                )
                at = base.plus(k.times(self.packer.tiling.width)).plus(c.times(group))
                self.b.store(self.panels, e.scalar(at), value, (self.row, 1, group))

            self.packer.each(ZERO, constant(wide), across, some)

        self.packer.each(ZERO, even, deep, square)

    def _rest(self, n: Affine, base: Affine) -> None:
        """The rows behind the last full group."""
        e, group = self.e, self.group
        even = self.full.times(group)
        start = self.part.start(self.p.depths)

        def one(k: Affine) -> None:
            for at, lanes in self.packer.pieces():
                e.tile = (lanes,) if lanes > 1 else ()
                column = n.plus(at).plus(e.indices.lane(0, lanes, 1))
                digits = e.indices.digits(start.plus(k), self.p.depths)
                value = self.p.b(e, self.packer.batch, column, digits)
                value = self.b.broadcast(value, e.tile)
                place = base.plus(self.full.times(self.row)).plus(at * group)
                place = place.plus(k).plus(even.times(-1))
                self.b.store(self.panels, e.scalar(place), value, (group,) if lanes > 1 else ())

        self.packer.each(even, self.part.length, 1, one)


def column_sums(packer: Packer, panels: Value, count: Affine, part: Part) -> Value:
    """For each column of the panels what a signed A, packed as unsigned, adds too much."""
    p, e, b, tiling = packer.p, packer.e, packer.b, packer.tiling
    group, width = p.packing.group, tiling.width
    with b.at(0):
        sums = b.alloc(p.of, tiling.panels * width)
    groups = e.indices.quotient(part.length.plus(group - 1), group)
    left = b.constant(p.a_type, BIAS, (1, group))

    def tile(t: Affine) -> None:
        def add(k: Value, total: Value) -> tuple[Value]:
            buffer, at, across = packer.panel_place(panels, t, part)
            number = e.indices.scalar(k, 0, -(-packer.depth // group) - 1)
            place = e.scalar(at.plus(number.times(group * across)))
            right = b.load(buffer, place, (group, width), (1, group))
            return (b.dot(total, left, right),)

        [total] = e.for_(0, e.scalar(groups), 1, (b.constant(p.of, 0, (1, width)),), add)
        b.store(sums, e.scalar(t.times(width)), total, (width, 1))

    packer.each(ZERO, count, 1, tile)
    return sums


# -- A


def clear_rest_of_a(packer: Packer, scratch: Value, part: Part) -> None:
    """Zeros in the last group of each row, or in the last tile, where K does not fill it."""
    p, e, b, group = packer.p, packer.e, packer.b, packer.p.packing.step
    if not packer.fills_last_step:
        return
    last = e.indices.quotient(part.length.plus(-1), group)
    height = packer.tiling.height
    if p.a_lanes == "m" and not p.packing.tile_depth:
        zeros = b.constant(p.a_type, 0, (group * height,))
        b.store(scratch, e.scalar(last.times(group * height)), zeros, (1,))
        return
    zeros = b.constant(p.a_type, 0, (height, group))
    b.store(scratch, e.scalar(last.times(group)), zeros, (packer.a_stride, 1))


def columns_in_groups(packer: Packer, scratch: Value, m: Affine, part: Part) -> None:
    """For every group of K the rows side by side, each with its elements."""
    p, e, b, group = packer.p, packer.e, packer.b, packer.p.packing.group
    height, start = packer.tiling.height, part.start(p.depths)
    full = e.indices.quotient(part.length, group)

    def some(k: Affine, count: int, at: Affine) -> None:
        e.tile = (count, height)
        depth = start.plus(k).plus(e.indices.lane(0, count, 2))
        row = m.plus(e.indices.lane(1, height, 2))
        value = b.broadcast(
            p.packed_a(e, packer.batch, row, e.indices.digits(depth, p.depths)), e.tile
        )
        b.store(scratch, e.scalar(at), value, (1, group))

    packer.each(ZERO, full, 1, lambda k: some(k.times(group), group, k.times(group * height)))
    even = full.times(group)
    if p.depth % group:
        # Its place is that of the last group, and how far it is behind the full ones.
        place = even.times(height).plus(even.times(-1))
        packer.each(even, part.length, 1, lambda k: some(k, 1, place.plus(k)))


def rows_from_columns(packer: Packer, scratch: Value, m: Affine, part: Part) -> None:
    """Rows along K of an A that is stored along its rows: small squares are turned in registers."""
    p, e, b = packer.p, packer.e, packer.b
    start, high = part.start(p.depths), packer.tiling.height
    across = next(n for n in (ACROSS, 8, 4, 2, 1) if high % n == 0)
    least = part.length.const if part.length.is_constant else min(DEEP, p.packing.step)
    deep = max(d for d in (DEEP, 8, 4, 2, 1) if d <= least)
    if len(p.depths) > 1:  # a square stays within the last digit
        deep = max(d for d in (16, 8, 4, 2, 1) if p.depths[-1] % d == 0 and d <= deep)

    def square(k: Affine) -> None:
        def some(r: Affine) -> None:
            e.tile = (across, deep)
            row = m.plus(r).plus(e.indices.lane(0, across, 2))
            depth = start.plus(k).plus(e.indices.lane(1, deep, 2))
            value = p.packed_a(e, packer.batch, row, e.indices.digits(depth, p.depths))
            at = r.times(packer.a_stride).plus(k)
            b.store(scratch, e.scalar(at), b.broadcast(value, e.tile), (packer.a_stride, 1))

        packer.each(ZERO, constant(high), across, some)

    packer.each(ZERO, part.length, deep, square)
