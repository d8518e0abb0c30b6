"""How one kernel reads the rows of a convolution where the image lies, and multiplies them.

What a step needs is copied first where it does not stand in memory with its zeros around it. A tile
of rows walks over those places of the window only at which one of them sees the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from hloom.codegen.affine import ZERO, Affine, constant, linear
from hloom.codegen.blocked_fold import DEEP_RUN, FEW_RUN, blocked_loop, chain_of, sum_restart
from hloom.codegen.lines_ahead import lines_ahead, rows_ahead
from hloom.codegen.window_rows import WindowAxis, WindowRows
from hloom.kernel.kernel import Value

if TYPE_CHECKING:
    from hloom.codegen.gemm_pack import Packer, Part

MOST_INSIDE = 0.98
"""Where less of what windows cover along a dimension is the image, tiles of rows ask where they
see it."""


@dataclass
class RowsOfWindow:
    """Rows of A for one tile: where each begins in a memory."""

    buffer: Value
    offsets: list[Affine]
    number: Affine
    """Of the tile, among those of its step."""
    seen: tuple[Affine, Affine] | None
    """Between which places of the window, along the outermost dimension that is walked in one go,
    rows see the image; None: all."""


class WindowReader:
    """Writes how one kernel reads the rows of a convolution."""

    def __init__(self, packer: Packer, rows: WindowRows) -> None:
        self.packer, self.rows = packer, rows
        self.e, self.b, self.p, self.tiling = packer.e, packer.b, packer.p, packer.tiling
        self.first_line, self.elements, self.copy = ZERO, 0, 0
        self.lines = self.first_tile = ZERO
        self.buffer: Value | None = None

    # -- the memory that is read

    @property
    def copies_for_parts(self) -> bool:
        """Whether the lines are copied anew for parts of K: for each place of the window along the
        outer dimensions."""
        outer = len(self.rows.outer)
        return not self.rows.stands and outer > 0 and self.tiling.split >= outer

    def begin(self, first: Affine, last: Affine) -> None:
        """What tiles of rows from `first` to `last` need: copied where it must be, or a memory for
        what `begin_part` copies."""
        rows, p, height = self.rows, self.p, self.tiling.height
        self.first_tile = first
        if rows.stands:
            self.buffer = self.e.sources[rows.array].buffer
            return
        tiling = self.tiling
        size = rows.scratch_elements(p.rows, height, tiling.row_tiles, tiling.split)
        self.elements, self.copy = size, size // rows.copies_at_once(tiling.split)
        self.buffer = self.b.alloc(rows.of, size)
        low = self.packer.least(first.times(height), p.rows - height)
        high = self.packer.least(last.times(height), p.rows).plus(-1)
        self.first_line = self._known(self._line_of(low))
        y, _ = rows.plane
        end = self._known(self._line_of(high).plus((y.window - 1) * y.dilation + 1))
        most = self.copy // rows.line
        self.lines = self.packer.clamped(end.plus(self.first_line.times(-1)), constant(most))
        if self.copies_for_parts:
            self.copy = 0
            return

        def copy(c: Affine) -> None:
            base, copy = c.times(self.copy), self._copy_line
            self.packer.each(ZERO, self.lines, 1, lambda number: copy(base, c, number))

        self.packer.each(ZERO, constant(rows.copies), 1, copy)

    def begin_part(self, part: Part) -> None:
        """What the rows need for a part of K, copied where it is the first of a place of the window
        along the outer dimensions."""
        if not self.copies_for_parts:
            return
        b, outer, number = self.b, len(self.rows.outer), ZERO
        for place, a in zip(part.prefix, self.rows.outer):
            number = number.times(a.window).plus(place)
        count = self.e.scalar(self.lines)
        for x in (*part.prefix[outer:], part.low):
            if not x.is_constant:
                is_first = b.compare("EQ", self.e.scalar(x), b.index(0))
                count = b.select(is_first, count, b.index(0))
        lines = self.e.indices.scalar(count, 0, self.lines.bounds()[1])
        self.packer.each(ZERO, lines, 1, lambda k: self._copy_line(ZERO, number, k))

    def _line_of(self, row: Affine) -> Affine:
        """The first line that a row of A reads, of those of all pictures."""
        y, x = self.rows.plane
        pictures = prod(self.rows.pictures)
        picture, place, _ = self.e.indices.digits(row, [pictures, y.out, x.out])
        return picture.times(y.reach).plus(place.times(y.stride))

    def _known(self, x: Affine) -> Affine:
        """An index as one number, computed here."""
        return x if x.is_constant else self.e.indices.scalar(self.e.scalar(x), *x.bounds())

    def _copy_line(self, base: Affine, picture: Affine, number: Affine) -> None:
        """One line of a picture between zeros, behind `base`; zeros only, where the image has none.
        The picture is one of `copies`."""
        rows, e, b = self.rows, self.e, self.b
        y, x = rows.plane
        pictures = prod(rows.pictures)
        line = self.packer.least(self.first_line.plus(number), pictures * y.reach - 1)
        image, *at_outer, place = e.indices.digits(line, [*rows.pictures, y.reach])
        of_window = e.indices.digits(picture, [a.window for a in rows.outer])
        where, inside = [image], None
        for a, at_out, w in zip(rows.outer, at_outer, of_window):
            at_a = at_out.times(a.stride).plus(w.times(a.dilation)).plus(-a.low)
            inside = self._both(inside, self._inside(at_a, a.size))
            where.append(self.packer.clamped(at_a, constant(a.size - 1)))
        place = place.plus(-y.low)
        base = base.plus(number.times(rows.line))
        before, skipped = min(max(x.low, 0), x.reach), max(-x.low, 0)
        count = max(min(x.size - skipped, x.reach - before), 0) * rows.features
        behind = rows.line - before * rows.features
        inside = self._both(inside, self._inside(place, y.size))
        if len(rows.axes) > 1:
            where.append(self.packer.clamped(place, constant(y.size - 1)))
        copied: Value = b.index(count)
        if inside is not None:
            copied = b.select(inside, copied, b.index(0))

        def copy(k: Affine, lanes: int) -> None:
            within = k.plus(e.indices.lane(0, lanes, 1))
            at_x, feature = e.indices.digits(within, [count // rows.features, rows.features])
            at = [ZERO] * rows.array.shape.rank
            for d, index in zip(rows.dims, (*where, at_x.plus(skipped), feature)):
                at[d] = index
            self._store(base, before * rows.features, k, e.value(rows.array, tuple(at)))

        def clear(k: Affine, lanes: int, at: int) -> None:
            self._store(base, at, k, b.constant(rows.of, 0, (lanes,) if lanes > 1 else ()))

        if before:
            self._run(b.index(0), before * rows.features, lambda k, n: clear(k, n, 0))
        if count:
            self._run(b.index(0), count, copy, upper=copied)
        rest = behind - count
        if rest or (count and inside is not None):
            at = before * rows.features
            self._run(copied, behind, lambda k, n: clear(k, n, at), least=rest or count)

    def _both(self, first: Value | None, second: Value | None) -> Value | None:
        """Whether both are true; None: always."""
        if first is None or second is None:
            return first if second is None else second
        return self.b.binary("and", first, second)

    def _inside(self, place: Affine, size: int) -> Value | None:
        """Whether a line is one of the image; None where it always is."""
        low, high = place.bounds()
        if low >= 0 and high < size:
            return None
        number, b = self.e.scalar(place), self.b
        after = b.compare("GE", number, b.index(0))
        return b.binary("and", after, b.compare("LT", number, b.index(size)))

    def _run(
        self,
        first: Value,
        end: int,
        body,
        least: int | None = None,
        upper: Value | None = None,
    ) -> None:
        """`body(k, lanes)` for vectors from `first` to `end`, which are at least `least` elements;
        up to `upper` where that is given, all or nothing."""
        e, most = self.e, 2 * self.tiling.lanes
        lanes = min(most, end if least is None else least)

        def write(k: Value) -> tuple[Value, ...]:
            e.tile = (lanes,) if lanes > 1 else ()
            at = self.packer.least(e.indices.scalar(k, 0, max(end - 1, 0)), end - lanes)
            body(at, lanes)
            return ()

        e.for_(first, self.b.index(end) if upper is None else upper, lanes, (), write)

    def _store(self, base: Affine, at: int, k: Affine, value: Value) -> None:
        value = self.b.broadcast(self.b.convert(value, self.rows.of), self.e.tile)
        place = self.e.scalar(base.plus(at).plus(k))
        assert self.buffer is not None
        self.b.store(self.buffer, place, value, (1,) if value.shape else ())

    # -- multiplying

    def rows_at(self, m: Affine) -> RowsOfWindow:
        """The rows of a tile that begins at `m`."""
        rows, buffer = self.rows, self.buffer
        assert buffer is not None
        places = [a.out for a in rows.axes]
        offsets, digits = [], []
        for r in range(self.tiling.height):
            digits.append(self.e.indices.digits(m.plus(r), [rows.images, *places]))
            image, *place = digits[-1]
            if rows.stands:
                at = [x.times(a.stride).plus(-a.low) for x, a in zip(place, rows.axes)]
            else:
                outer = len(rows.outer)
                inner = [x.times(a.stride) for x, a in zip(place[outer:], rows.axes[outer:])]
                at = [*place[:outer], *inner]
            offset = linear((image, *at), rows.strides)
            offset = offset.plus(self.first_line.times(-rows.line))
            offsets.append(self._known(self.packer.clamped(offset, constant(self._last_start()))))
        # The last tile is moved back, and counts as the one before it.
        number = self.e.indices.quotient(m, self.tiling.height).plus(self.first_tile.times(-1))
        number = self.e.indices.scalar(self.e.scalar(number), 0, self.tiling.row_tiles - 1)
        return RowsOfWindow(buffer, offsets, number, self._seen(digits[0], digits[-1]))

    def _seen(self, first: list[Affine], last: list[Affine]) -> tuple[Affine, Affine] | None:
        """`RowsOfWindow.seen` of rows from `first` to `last`: all where they are of several
        pictures."""
        d, b, indices = self.tiling.split, self.b, self.e.indices
        axes = self.rows.axes
        if d >= len(axes) or self.tiling.piece != axes[d].window:
            return None
        a = axes[d]
        if a.share_inside >= MOST_INSIDE:
            return None
        low, end = self._first_seen(a, last[d + 1]), self._end_seen(a, first[d + 1])
        for x, y in zip(first[: d + 1], last[: d + 1]):
            if a.out == 1 or (x.is_constant and y.is_constant):
                continue
            same = b.compare("EQ", self.e.scalar(x), self.e.scalar(y))
            low = indices.scalar(b.select(same, self.e.scalar(low), b.index(0)), 0, a.window)
            all_of_it = b.index(a.window)
            end = indices.scalar(b.select(same, self.e.scalar(end), all_of_it), 0, a.window)
        return low, end

    def _first_seen(self, a: WindowAxis, place: Affine) -> Affine:
        """The first place of the window at which a row at `place` sees the image."""
        more = max(0, -(-a.low // a.dilation))
        at = place.times(a.stride).plus(more * a.dilation - a.low)
        low = self.e.indices.quotient(at, a.dilation).times(-1).plus(more)
        return self._known(self.packer.clamped(low, constant(a.window)))

    def _end_seen(self, a: WindowAxis, place: Affine) -> Affine:
        """The place of the window behind the last at which a row at `place` sees the image."""
        more = max(0, -(-((a.out - 1) * a.stride - a.low - a.size) // a.dilation)) + 1
        at = place.times(-a.stride).plus(a.size - 1 + a.low + more * a.dilation)
        end = self.e.indices.quotient(at, a.dilation).plus(1 - more)
        return self._known(self.packer.clamped(end, constant(a.window)))

    def _last_start(self) -> int:
        """The last element at which a row may begin, so that all of its window is there."""
        rows = self.rows
        size = rows.array.shape.size if rows.stands else self.elements
        sizes = (*[a.window for a in rows.axes], rows.features)
        return size - 1 - sum((n - 1) * step for n, step in zip(sizes, rows.steps(self.copy)))

    def sums(
        self, a: RowsOfWindow, panels: Value, base: Affine, across: int, part: Part, acc: Value
    ) -> Value:
        """`acc` and the products of a part of K."""
        e, p = self.e, self.p
        split, first = len(part.prefix), len(p.depths) - 1
        if self.rows.joins_features and split < first - 1:
            first -= 1
        steps = self.rows.steps(self.copy)
        before = linear(part.prefix, steps)
        restart = sum_restart(e, [acc])
        few = self.tiling.leaves_registers(acc.dtype, e.device)
        run = FEW_RUN if few else DEEP_RUN
        ask = lines_ahead(e, p, self.tiling, self.packer.depth, panels, base, a.number)

        def inner(
            length: int, upper: Value | None, at: Affine, number: Affine, total: Value
        ) -> Value:
            """The products of a run of K, of which `number` elements of the part come before."""
            b_at = base.plus(number.times(across))
            starts = [self._known(x.plus(at)) for x in a.offsets]

            def step(x: Affine, now: Value) -> tuple[Value, ...]:
                if ask is not None:
                    ask(number.plus(x))
                return (self._step(a.buffer, starts, x, panels, b_at, across, now),)

            [total] = blocked_loop(e, length, (total,), step, restart, run=run, upper=upper)
            return total

        if split == first:
            upper, longest = self._length(part, self.packer.depth)
            at = before.plus(part.low.times(steps[first]))
            return inner(longest, upper, at, ZERO, acc)
        length = self.packer.depth
        sizes = p.depths[split + 1 : first]
        for size in (self.tiling.piece, *sizes):
            length //= size
        upper, count = self._length(part, self.packer.depth // length)
        if upper is not None:
            upper = e.scalar(e.indices.quotient(part.length, length))
        low = part.low
        if a.seen is not None:  # then it is the first part
            low, end = a.seen
            upper = e.scalar(end.plus(low.times(-1)).times(prod(sizes)))

        def outer(o: Affine, total: Value) -> tuple[Value, ...]:
            place, *rest = e.indices.digits(o, [self.tiling.piece, *sizes])
            number = self.packer.least(low.plus(place), p.depths[split] - 1)
            at = before.plus(number.times(steps[split]))
            at = at.plus(linear(rest, steps[split + 1 :]))
            if a.seen is not None:
                o = linear((number, *rest), [prod(sizes[d:]) for d in range(len(sizes) + 1)])
            return (inner(length, None, at, o.times(length), total),)

        chain = chain_of(length, run=run)
        [acc] = blocked_loop(e, count, (acc,), outer, restart, chain=chain, run=run, upper=upper)
        return acc

    def _length(self, part: Part, longest: int) -> tuple[Value | None, int]:
        """How many steps a part has: where it is not always as many, and at most."""
        if part.length.is_constant:
            return None, longest
        return self.e.scalar(part.length), longest

    def _step(
        self,
        buffer: Value,
        starts: Sequence[Affine],
        x: Affine,
        panels: Value,
        b_at: Affine,
        across: int,
        total: Value,
    ) -> Value:
        """One element of K: of each row one number, of B a row."""
        e, b = self.e, self.b
        left = [b.load(buffer, e.scalar(start.plus(x)), (1, 1), (1, 1)) for start in starts]
        where = e.scalar(b_at.plus(x.times(across)))
        right = b.load(panels, where, (1, self.tiling.width), (across, 1))
        total = b.dot(total, left[0] if len(left) == 1 else b.concatenate(left, 0), right)
        if lines := rows_ahead(e, self.p, self.tiling, self.packer.depth, across):
            b.prefetch(panels, where, lines, nearest=True)
        return total
