"""Rows of a convolution that are read where the image lies, not copied for every place.

Of a window of 3 x 3 each element of an image is in nine rows of A. Where a place has its features
side by side, the elements of a row for one place of the window are a run of memory, and for all
rows that place is as far from the row's first one: so a row is an address, and K is walked by the
window's places and their features. Where the window reaches over the edges of the image, or the
image is still to be computed, a step first copies the lines of the image that it needs into a
scratch, with zeros around them: once, not for every place of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from hloom.codegen.affine import ZERO, Affine, constant, linear
from hloom.codegen.blocked_fold import DEEP_RUN, FEW_RUN, blocked_loop, chain_of, sum_restart
from hloom.codegen.elements import strides_of
from hloom.codegen.gemm_tiling import FEWEST_LINES_SHARE, share_bytes
from hloom.codegen.product import fastest
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value
from hloom.types.dtype import DType

if TYPE_CHECKING:
    from hloom.codegen.gemm_pack import Packer, Part


@dataclass(frozen=True)
class WindowAxis:
    """One dimension of the image: its size, that of the result, and the window along it."""

    size: int
    out: int
    window: int
    stride: int
    dilation: int
    low: int
    """Places before the first of the image that the window begins at."""

    @property
    def reach(self) -> int:
        """Places from the first to the last that any window covers."""
        return (self.out - 1) * self.stride + (self.window - 1) * self.dilation + 1

    @property
    def is_inside(self) -> bool:
        """Whether no window reaches over an edge."""
        return self.low <= 0 and self.reach - self.low <= self.size


WORTH_COPYING = 2
"""Lines of the result for which a step copies at least what they read: of fewer most is read by
other steps, too."""
COMMON_HEIGHT = 8
"""Rows of a tile, before it is known how many there are."""
NO_AXIS = WindowAxis(1, 1, 1, 1, 1, 0)


@dataclass(frozen=True, eq=False)
class WindowRows:
    """The rows of A of a convolution: their image, and where its dimensions are."""

    array: Instruction
    of: DType
    images: int
    features: int
    axes: tuple[WindowAxis, ...]
    dims: tuple[int, ...]
    """The dimensions of the array: images, those of `axes`, features."""
    stands: bool
    """Whether rows are read from the array itself."""

    @cached_property
    def plane(self) -> tuple[WindowAxis, WindowAxis]:
        """Lines of a picture, and the places in a line."""
        *outer, x = self.axes
        return (outer[0] if outer else NO_AXIS), x

    @property
    def line(self) -> int:
        """Elements of a line with what is around it."""
        return self.plane[1].reach * self.features

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Elements from one image, place and feature to the next in the memory that is read."""
        if self.stands:
            strides = strides_of(self.array.shape)
            return tuple([strides[d] for d in self.dims])
        inner = (self.line, self.features, 1) if len(self.axes) == 2 else (self.features, 1)
        return (self.plane[0].reach * self.line, *inner)

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """Elements from one place of the window to the next, and from feature to feature."""
        *places, feature = self.strides[1:]
        return (*[s * a.dilation for s, a in zip(places, self.axes)], feature)

    @property
    def joins_features(self) -> bool:
        """Whether the places of a window's row and their features are one run."""
        return self.steps[-2] == self.features and self.steps[-1] == 1

    def lines_between(self, first: int, end: int) -> tuple[int, int]:
        """The lines, of all images with what is around them, that some rows of A need."""
        y, x = self.plane

        def line(row: int) -> int:
            image, place = divmod(row // x.out, y.out)
            return image * y.reach + place * y.stride

        return line(first), line(end - 1) + (y.window - 1) * y.dilation + 1

    def least_tiles(self, height: int) -> int:
        """The fewest tiles of rows for which lines are worth their copy."""
        return 1 if self.stands else -(-WORTH_COPYING * self.plane[1].out // height)

    def scratch_elements(self, rows: int, height: int, row_tiles: int) -> int:
        """Elements of the lines that any step of so many tiles of rows copies."""
        if self.stands:
            return 0
        per_step, most = height * row_tiles, 0
        for first in range(0, rows, per_step):
            low, end = self.lines_between(min(first, rows - height), min(first + per_step, rows))
            most = max(most, end - low)
        return most * self.line


def window_rows(
    i: Instruction, leaves: set[Instruction], of: DType, device: Device
) -> WindowRows | None:
    """How rows of a convolution are read where they stand; None where they must be packed."""
    labels, windows, lhs = i.attrs.dim_labels, i.attrs.window.dimensions, i.operands[0]
    if not windows or of.is_complex or any(w.base_dilation != 1 for w in windows):
        return None
    if fastest(lhs, leaves) != labels.input_feature_dimension or i.shape.size == 0:
        return None
    dims = (
        labels.input_batch_dimension,
        *labels.input_spatial_dimensions,
        labels.input_feature_dimension,
    )
    axes = tuple(
        WindowAxis(
            lhs.shape.dims[a], i.shape.dims[c], w.size, w.stride, w.window_dilation, w.padding_low
        )
        for a, c, w in zip(
            labels.input_spatial_dimensions, labels.output_spatial_dimensions, windows
        )
    )
    images, *_, features = [lhs.shape.dims[d] for d in dims]
    stands = lhs in leaves and lhs.shape.dtype is of and all(a.is_inside for a in axes)
    rows = WindowRows(lhs, of, images, features, axes, dims, stands)
    if stands:
        return rows if rows.strides[-1] == 1 else None
    if len(axes) > 2:
        return None
    count = images * prod(a.out for a in axes)
    height = min(COMMON_HEIGHT, count)
    fewest = rows.scratch_elements(count, height, rows.least_tiles(height)) * of.size_bytes
    return rows if fewest <= share_bytes(device, FEWEST_LINES_SHARE) else None


@dataclass
class RowsOfWindow:
    """Rows of A for one tile: where each begins in a memory."""

    buffer: Value
    offsets: list[Affine]


class WindowReader:
    """Writes how one kernel reads the rows of a convolution."""

    def __init__(self, packer: Packer, rows: WindowRows) -> None:
        self.packer, self.rows = packer, rows
        self.e, self.b, self.p, self.tiling = packer.e, packer.b, packer.p, packer.tiling
        self.first_line, self.elements = ZERO, 0
        self.buffer: Value | None = None

    # -- the memory that is read

    def begin(self, first: Affine, last: Affine) -> None:
        """What tiles of rows from `first` to `last` need, copied where it must be."""
        rows, p, height = self.rows, self.p, self.tiling.height
        if rows.stands:
            self.buffer = self.e.sources[rows.array].buffer
            return
        size = self.elements = rows.scratch_elements(p.rows, height, self.tiling.row_tiles)
        self.buffer = self.b.alloc(rows.of, size)
        low = self.packer.least(first.times(height), p.rows - height)
        high = self.packer.least(last.times(height), p.rows).plus(-1)
        self.first_line = self._known(self._line_of(low))
        y, _ = rows.plane
        end = self._known(self._line_of(high).plus((y.window - 1) * y.dilation + 1))
        most = size // rows.line
        count = self.packer.clamped(end.plus(self.first_line.times(-1)), constant(most))
        self.packer.each(ZERO, count, 1, self._copy_line)

    def _line_of(self, row: Affine) -> Affine:
        """The first line that a row of A reads, of those of all images."""
        y, x = self.rows.plane
        image, place, _ = self.e.indices.digits(row, [self.rows.images, y.out, x.out])
        return image.times(y.reach).plus(place.times(y.stride))

    def _known(self, x: Affine) -> Affine:
        """An index as one number, computed here."""
        return x if x.is_constant else self.e.indices.scalar(self.e.scalar(x), *x.bounds())

    def _copy_line(self, number: Affine) -> None:
        """One line of an image between zeros; zeros only, where the image has none."""
        rows, e, b = self.rows, self.e, self.b
        y, x = rows.plane
        line = self.packer.least(self.first_line.plus(number), rows.images * y.reach - 1)
        image, place = e.indices.digits(line, [rows.images, y.reach])
        place = place.plus(-y.low)
        base = number.times(rows.line)
        before, skipped = min(max(x.low, 0), x.reach), max(-x.low, 0)
        count = max(min(x.size - skipped, x.reach - before), 0) * rows.features
        behind = rows.line - before * rows.features
        inside = self._inside(place, y.size)
        place = self.packer.clamped(place, constant(y.size - 1))
        copied: Value = b.index(count)
        if inside is not None:
            copied = b.select(inside, copied, b.index(0))

        def copy(k: Affine, lanes: int) -> None:
            within = k.plus(e.indices.lane(0, lanes, 1))
            at_x, feature = e.indices.digits(within, [count // rows.features, rows.features])
            at = [ZERO] * rows.array.shape.rank
            where = (image, place, at_x.plus(skipped)) if len(rows.axes) == 2 else (image, at_x)
            for d, index in zip(rows.dims, (*where, feature)):
                at[d] = index
            if len(rows.axes) == 1:
                at[rows.dims[1]] = at_x.plus(skipped)
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
        offsets = []
        for r in range(self.tiling.height):
            image, *place = self.e.indices.digits(m.plus(r), [rows.images, *places])
            at = [x.times(a.stride) for x, a in zip(place, rows.axes)]
            if rows.stands:
                at = [x.plus(-a.low) for x, a in zip(at, rows.axes)]
            offset = linear((image, *at), rows.strides)
            offset = offset.plus(self.first_line.times(-rows.line))
            offsets.append(self._known(self.packer.clamped(offset, constant(self._last_start()))))
        return RowsOfWindow(buffer, offsets)

    def _last_start(self) -> int:
        """The last element at which a row may begin, so that all of its window is there."""
        rows = self.rows
        size = rows.array.shape.size if rows.stands else self.elements
        sizes = (*[a.window for a in rows.axes], rows.features)
        return size - 1 - sum((n - 1) * step for n, step in zip(sizes, rows.steps))

    def sums(
        self, a: RowsOfWindow, panels: Value, base: Affine, across: int, part: Part, acc: Value
    ) -> Value:
        """`acc` and the products of a part of K."""
        e, p = self.e, self.p
        split, first = len(part.prefix), len(p.depths) - 1
        if self.rows.joins_features and split < first - 1:
            first -= 1
        steps = self.rows.steps
        before = linear(part.prefix, steps)
        restart = sum_restart(e, [acc])
        few = self.tiling.leaves_registers(acc.dtype, e.device)
        run = FEW_RUN if few else DEEP_RUN

        def inner(
            length: int, upper: Value | None, at: Affine, b_at: Affine, total: Value
        ) -> Value:
            starts = [self._known(x.plus(at)) for x in a.offsets]

            def step(x: Affine, now: Value) -> tuple[Value, ...]:
                return (self._step(a.buffer, starts, x, panels, b_at, across, now),)

            [total] = blocked_loop(e, length, (total,), step, restart, run=run, upper=upper)
            return total

        if split == first:
            upper, longest = self._length(part, self.packer.depth)
            at = before.plus(part.low.times(steps[first]))
            return inner(longest, upper, at, base, acc)
        length = self.packer.depth
        sizes = p.depths[split + 1 : first]
        for size in (self.tiling.piece, *sizes):
            length //= size
        upper, count = self._length(part, self.packer.depth // length)
        if upper is not None:
            upper = e.scalar(e.indices.quotient(part.length, length))

        def outer(o: Affine, total: Value) -> tuple[Value, ...]:
            place, *rest = e.indices.digits(o, [self.tiling.piece, *sizes])
            number = self.packer.least(part.low.plus(place), p.depths[split] - 1)
            at = before.plus(number.times(steps[split]))
            at = at.plus(linear(rest, steps[split + 1 :]))
            return (inner(length, None, at, base.plus(o.times(length * across)), total),)

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
        return b.dot(total, left[0] if len(left) == 1 else b.concatenate(left, 0), right)
