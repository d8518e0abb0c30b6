"""The input of a convolution with lanes along channels, packed: rows with zeros around them.

Depthwise convolutions and those of small groups, their weight gradients, and convolutions of few
outputs all read their input from such rows, free of conditions.
"""

from __future__ import annotations

from collections.abc import Callable

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.bounded_runs import Runs
from hloom.codegen.depthwise_shape import DepthwiseTiling, Geometry, is_gradient
from hloom.codegen.elements import Elements
from hloom.codegen.gemm import Finish
from hloom.codegen.gemm_pack import SQUARE
from hloom.codegen.product import fastest
from hloom.codegen.row_products import accumulator_type
from hloom.codegen.tile import KernelEmitter
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value


class DepthwiseWriter(Finish, Runs):
    """What both forms have in common: packing the input."""

    def __init__(
        self, emitter: KernelEmitter, i: Instruction, g: Geometry, tiling: DepthwiseTiling
    ) -> None:
        Finish.__init__(self, emitter, i)
        self.i, self.g, self.tiling = i, g, tiling
        self.of = accumulator_type(i.shape.dtype)
        self.labels = i.attrs.dim_labels
        self.leaves = {x for x, _ in emitter.body.leaves}
        self.part = ZERO
        # Elements of a packed place.
        self.place_size = tiling.width

    def first_channel(self, block: Affine) -> tuple[Affine, Affine]:
        """The first channel of a block, the last one moved back; and how many it then shares."""
        width, channels = self.tiling.width, self.g.channels
        start = block.times(width)
        if channels % width == 0:
            return start, ZERO
        c = self.least(start, channels - width)
        return c, start.plus(c.times(-1))

    def read(
        self, x: Instruction, image: Affine, row: Affine, column: Affine, c: Affine, left: bool
    ) -> Value:
        """An element of an activation, in the type of sums."""
        e: Elements = self.e
        labels = self.labels
        if left:
            spatial = labels.input_spatial_dimensions
            first, channel = labels.input_batch_dimension, labels.input_feature_dimension
            if is_gradient(self.i):
                first, channel = channel, first
        else:
            spatial = labels.kernel_spatial_dimensions
            first = labels.kernel_input_feature_dimension
            channel = labels.kernel_output_feature_dimension
        at = [ZERO] * x.shape.rank
        at[first], at[channel] = image, c
        spatial = self._within_part(at, spatial)
        at[spatial[-1]] = column
        if len(spatial) > 1:
            at[spatial[0]] = row
        return self.b.broadcast(self.b.convert(e.value(x, tuple(at)), self.of), e.tile)

    def pack(
        self, scratch: Value, x: Instruction, image: Affine, row: Affine, c: Affine, count: Affine
    ) -> None:
        """Rows of the input that `count` rows of results from `row` on need, with the padding."""
        g = self.g
        top = row.times(g.stride[0]).plus(-g.padding[0])
        needed = count.plus(-1).times(g.stride[0]).plus((g.taps[0] - 1) * g.dilation[0] + 1)
        # Where all rows are padding `shown` may be behind the last: there is no data then.
        shown = self.positive(top.times(-1))
        begin = self.lesser(shown, needed)
        end = self.clamped(top.times(-1).plus(g.size[0]), needed)
        stride = g.columns * self.place_size
        first = min(max(g.padding[1], 0), g.columns)
        last = max(min(g.padding[1] + g.size[1], g.columns), first)

        def zeros(r: Affine) -> None:
            self.zero(scratch, r.times(stride), 0, g.columns)

        def data(r: Affine) -> None:
            self.zero(scratch, r.times(stride), 0, first)
            self.row(scratch, r.times(stride), x, image, top.plus(r), c, first, last)
            self.zero(scratch, r.times(stride), last, g.columns)

        self.each(ZERO, begin, 1, zeros)
        self.each(shown, end, 1, data)
        self.each(end, needed, 1, zeros)

    def zero(self, scratch: Value, at: Affine, low: int, high: int) -> None:
        """Zeros in some columns of a packed row."""
        width, e, b = self.tiling.width, self.e, self.b

        def one(k: Affine) -> None:
            place = e.scalar(at.plus(k.times(width)))
            b.store(scratch, place, b.constant(self.of, 0, (width,)), (1,))

        self.each(constant(low), constant(high), 1, one)

    def row(
        self,
        scratch: Value,
        at: Affine,
        x: Instruction,
        image: Affine,
        row: Affine,
        c: Affine,
        low: int,
        high: int,
    ) -> None:
        """The columns `low` to `high` of a packed row; they are in the input."""
        e, b, width = self.e, self.b, self.tiling.width
        shift = -self.g.padding[1]
        if high <= low:
            return
        if fastest(x, self.leaves) == self.labels.input_spatial_dimensions[-1]:
            deep, across = min(SQUARE, high - low), min(SQUARE, width)

            def square(k: Affine) -> None:
                def group(j: Affine) -> None:
                    e.tile = (deep, across)
                    column = k.plus(shift).plus(e.indices.lane(0, deep, 2))
                    channel = c.plus(j).plus(e.indices.lane(1, across, 2))
                    value = self.read(x, image, row, column, channel, True)
                    place = e.scalar(at.plus(k.times(width)).plus(j))
                    b.store(scratch, place, value, (width, 1))

                self.each(ZERO, constant(width), across, group)

            self.each(constant(low), constant(high), deep, square)
            return

        def one(k: Affine) -> None:
            e.tile = (width,)
            channel = c.plus(e.indices.lane(0, width, 1))
            value = self.read(x, image, row, k.plus(shift), channel, True)
            b.store(scratch, e.scalar(at.plus(k.times(width))), value, (1,))

        self.each(constant(low), constant(high), 1, one)

    def place(self, image: Affine, row: Affine, column: Affine, c: Affine) -> tuple[Affine, ...]:
        """The index of a result."""
        labels = self.labels
        at = [ZERO] * self.i.shape.rank
        spatial = self._within_part(at, labels.output_spatial_dimensions)
        at[labels.output_batch_dimension] = image
        at[labels.output_feature_dimension] = c
        at[spatial[-1]] = column
        if len(spatial) > 1:
            at[spatial[0]] = row
        return tuple(at)

    def _within_part(self, at: list[Affine], spatial: tuple[int, ...]) -> tuple[int, ...]:
        """The spatial dimensions of one part, whose number is set in an index."""
        if self.g.parts == 1:
            return spatial
        at[spatial[0]] = self.part
        return spatial[1:]

    def by_channels(self, skipped: Affine, v: Affine, body: Callable[[int, int], None]) -> None:
        """`body(first lane, lanes)` for the lanes of vector `v` that no other block has."""
        width, channels = self.tiling.width, self.g.channels
        if channels % width == 0:
            body(0, self.tiling.lanes)
            return
        # One vector per block then.
        rest = channels % width
        whole = self.b.compare("EQ", self.e.scalar(skipped), self.b.index(0))
        one = self.b.select(whole, self.b.index(1), self.b.index(0))
        border = self.e.indices.scalar(one, 0, 1)
        self.each(ZERO, border, 1, lambda _: body(0, width))
        self.each(border, constant(1), 1, lambda _: body(width - rest, rest))
