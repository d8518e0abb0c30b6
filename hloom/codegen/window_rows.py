"""Rows of a convolution that are read where the image lies, not copied for every place.

Of a window of 3 x 3 each element of an image is in nine rows of A. Where a place has its features
side by side, the elements of a row for one place of the window are a run of memory, and for all
rows that place is as far from the row's first one: so a row is an address, and K is walked by the
window's places and their features. Where the window reaches over the edges of the image, or the
image is still to be computed, a step first copies the lines of the image that it needs into a
scratch, with zeros around them: once, not for every place of the window. Of a space of more than
two dimensions each place of the window along the outer ones has lines of its own: they are copied
once for each of those, not for each place in a picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from hloom.codegen.elements import strides_of
from hloom.codegen.gemm_tiling import FEWEST_LINES_SHARE, share_bytes
from hloom.codegen.product import fastest
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.types.dtype import DType


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

    @property
    def share_inside(self) -> float:
        """Which share of all places that windows cover is of the image."""
        inside = 0
        for k in range(self.window):
            first = self.low - k * self.dilation  # times the stride, of the first inside
            begin, end = -(-first // self.stride), -(-(first + self.size) // self.stride)
            inside += max(0, min(end, self.out) - max(begin, 0))
        return inside / (self.window * self.out)


WORTH_COPYING = 2
"""Lines of the result for which a step copies at least what they read: of fewer most is read by
other steps, too."""
COMMON_HEIGHT = 8
"""Rows of a tile, before it is known how many there are."""
COPIED_SHARE = 0.5
"""Of what rows are, where pictures are copied several times: a copy has its price."""
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
        return (outer[-1] if outer else NO_AXIS), x

    @property
    def outer(self) -> tuple[WindowAxis, ...]:
        """What pictures are taken from: the dimensions before those of a picture."""
        return self.axes[:-2]

    @property
    def copies(self) -> int:
        """How many pictures a picture of the result reads: each has lines of its own."""
        return prod(a.window for a in self.outer)

    @property
    def pictures(self) -> list[int]:
        """Of what the pictures of the result are counted."""
        return [self.images, *[a.out for a in self.outer]]

    @property
    def line(self) -> int:
        """Elements of a line with what is around it."""
        return self.plane[1].reach * self.features

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Elements from one image, place and feature to the next in the memory that is read; along
        outer dimensions from one place of the result to the next where lines are copied."""
        if self.stands:
            strides = strides_of(self.array.shape)
            return tuple([strides[d] for d in self.dims])
        picture = self.plane[0].reach * self.line
        pictures = [picture * prod(self.pictures[d + 1 :]) for d in range(len(self.pictures))]
        inner = (self.line, self.features, 1) if len(self.axes) > 1 else (self.features, 1)
        return (*pictures, *inner)

    def steps(self, copy: int) -> tuple[int, ...]:
        """Elements from one place of the window to the next, and from feature to feature, where
        the lines for one place along the outer dimensions are so many elements."""
        *places, feature = self.strides[1:]
        steps = [s * a.dilation for s, a in zip(places, self.axes)]
        if not self.stands:
            windows = [a.window for a in self.outer]
            steps[: len(windows)] = [copy * prod(windows[d + 1 :]) for d in range(len(windows))]
        return (*steps, feature)

    @property
    def joins_features(self) -> bool:
        """Whether the places of a window's row and their features are one run."""
        *_, place, feature = self.steps(0)
        return place == self.features and feature == 1

    @property
    def worth_copying(self) -> bool:
        """Whether what is copied, of whole pictures, is far less than rows that are packed."""
        y, x = self.plane
        copied = self.copies * y.reach * x.reach
        packed = prod(a.window for a in self.axes) * y.out * x.out
        return self.copies == 1 or copied <= COPIED_SHARE * packed

    def lines_between(self, first: int, end: int) -> tuple[int, int]:
        """The lines, of all pictures with what is around them, that some rows of A need."""
        y, x = self.plane

        def line(row: int) -> int:
            picture, place = divmod(row // x.out, y.out)
            return picture * y.reach + place * y.stride

        return line(first), line(end - 1) + (y.window - 1) * y.dilation + 1

    def least_tiles(self, height: int) -> int:
        """The fewest tiles of rows for which lines are worth their copy."""
        return 1 if self.stands else -(-WORTH_COPYING * self.plane[1].out // height)

    def copies_at_once(self, split: int) -> int:
        """How many pictures for each of the result are there together where K is cut at a digit: of
        one place of the window along the outer dimensions, if no part has several."""
        return self.copies if split < len(self.outer) else 1

    def scratch_elements(self, rows: int, height: int, row_tiles: int, split: int) -> int:
        """Elements of the lines that any step of so many tiles of rows, and of parts of K that are
        cut at a digit, has at once."""
        if self.stands:
            return 0
        per_step, most = height * row_tiles, 0
        for first in range(0, rows, per_step):
            low, end = self.lines_between(min(first, rows - height), min(first + per_step, rows))
            most = max(most, end - low)
        return most * self.line * self.copies_at_once(split)


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
    if not rows.worth_copying:
        return None
    count = images * prod(a.out for a in axes)
    height = min(COMMON_HEIGHT, count)
    fewest = rows.scratch_elements(count, height, rows.least_tiles(height), 0) * of.size_bytes
    return rows if fewest <= share_bytes(device, FEWEST_LINES_SHARE) else None
