"""Depthwise convolutions and their weight gradients: lanes along channels, window written out.

A step owns some rows of the result of one image and a block of channels. It packs the rows of the
input that these need, with zeros where the window hangs over the edge, so that what multiplies is
free of conditions: a few neighbouring results share the inputs they load, the weights stay in
registers. The gradient keeps one sum for every place of the window instead.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.blocked_fold import blocked_loop, sum_restart
from hloom.codegen.bounded_runs import Runs
from hloom.codegen.depthwise_shape import DepthwiseTiling, Geometry, is_gradient
from hloom.codegen.elements import Elements
from hloom.codegen.gemm import Finish
from hloom.codegen.gemm_pack import SQUARE
from hloom.codegen.product import fastest
from hloom.codegen.row_products import accumulator_type, multiply_add
from hloom.codegen.tile import Body, Emitted, KernelEmitter
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value

# Neighbouring results computed together.
NEIGHBOURS = 4
# Results of a line whose gradients are summed in a row.
LINE_RUN = 64


def depthwise_kernel(body: Body, i: Instruction, g: Geometry, device: Device) -> Emitted:
    """The kernel of a body whose anchor is a depthwise convolution."""
    of = accumulator_type(i.shape.dtype)
    lanes = min(max(device.compute.vector_bytes // max(of.size_bytes, 1), 1), g.channels)
    writer = GradientWriter if is_gradient(i) else ForwardWriter
    tiling = DepthwiseTiling.of(g, lanes, max(of.size_bytes, 1), is_gradient(i), device)
    grid = (1 if is_gradient(i) else g.images, tiling.row_blocks, tiling.channel_blocks)
    if is_gradient(i):
        grid = (g.parts, 1, tiling.channel_blocks)
    emitter = KernelEmitter(body, grid, device)
    writer(emitter, i, g, tiling).write()
    return emitter.finish()


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
        begin = self.clamped(top.times(-1), needed)
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
        self.each(begin, end, 1, data)
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


class ForwardWriter(DepthwiseWriter):
    """Writes one step of a depthwise convolution."""

    def write(self) -> None:
        """The step."""
        e, b, g, tiling = self.e, self.b, self.g, self.tiling
        grid = b.grid_indices
        image = e.indices.scalar(grid[0], 0, g.images - 1)
        row = e.indices.scalar(grid[1], 0, tiling.row_blocks - 1).times(tiling.rows)
        end = self.least(row.plus(tiling.rows), g.out[0])
        block = e.indices.scalar(grid[2], 0, tiling.channel_blocks - 1)
        c, skipped = self.first_channel(block)
        size = g.rows(tiling.rows) * g.columns * tiling.width
        scratch = b.alloc(self.of, size)
        self.pack(scratch, self.i.operands[0], image, row, c, end.plus(row.times(-1)))

        def vector(v: Affine) -> None:
            lanes = tiling.lanes
            weights = self._weights(c.plus(v.times(lanes)))

            def results(r: Affine) -> None:
                def some(w: Affine, count: int) -> None:
                    start = r.plus(row.times(-1)).times(g.stride[0] * g.columns)
                    at = start.plus(w.times(g.stride[1])).times(tiling.width).plus(v.times(lanes))
                    sums = self._sums(scratch, at, weights, count)

                    def store(first: int, channel_count: int) -> None:
                        x = (
                            sums
                            if channel_count == lanes
                            else b.slice(sums, 1, first, channel_count)
                        )
                        e.tile = (count, channel_count)
                        channel = c.plus(v.times(lanes)).plus(first)
                        channel = channel.plus(e.indices.lane(1, channel_count, 2))
                        column = w.plus(e.indices.lane(0, count, 2))
                        self.finish_at(x, self.place(image, r, column, channel))

                    self.by_channels(skipped, v, store)

                whole = g.out[1] - g.out[1] % NEIGHBOURS
                self.each(ZERO, constant(whole), NEIGHBOURS, lambda w: some(w, NEIGHBOURS))
                self.each(constant(whole), constant(g.out[1]), 1, lambda w: some(w, 1))

            self.each(row, end, 1, results)

        self.each(ZERO, constant(tiling.vectors), 1, vector)

    def _weights(self, c: Affine) -> list[Value]:
        """A vector of weights for each place of the window."""
        e, g = self.e, self.g
        rhs, labels = self.i.operands[1], self.labels
        e.tile = (self.tiling.lanes,)
        weights = []
        for y in range(g.taps[0]):
            for x in range(g.taps[1]):
                at = [ZERO] * rhs.shape.rank
                at[labels.kernel_output_feature_dimension] = c.plus(
                    e.indices.lane(0, self.tiling.lanes, 1)
                )
                spatial = labels.kernel_spatial_dimensions
                at[spatial[-1]] = constant(x)
                if len(spatial) > 1:
                    at[spatial[0]] = constant(y)
                value = self.b.convert(e.value(rhs, tuple(at)), self.of)
                weights.append(self.b.broadcast(value, e.tile))
        return weights

    def _sums(self, scratch: Value, at: Affine, weights: list[Value], count: int) -> Value:
        """Neighbouring results as a tile [count, lanes]."""
        e, b, g, lanes = self.e, self.b, self.g, self.tiling.lanes
        sums = [b.constant(self.of, 0, (lanes,)) for _ in range(count)]
        for y in range(g.taps[0]):
            known: dict[int, Value] = {}
            for x in range(g.taps[1]):
                for n in range(count):
                    column = n * g.stride[1] + x * g.dilation[1]
                    if column not in known:
                        offset = (y * g.dilation[0] * g.columns + column) * self.tiling.width
                        known[column] = b.load(scratch, e.scalar(at.plus(offset)), (lanes,), (1,))
                    weight = weights[y * g.taps[1] + x]
                    sums[n] = multiply_add(e, known[column], weight, sums[n])
        return b.concatenate([b.reshape(x, (1, lanes)) for x in sums], 0)


class GradientWriter(DepthwiseWriter):
    """Writes one step of the gradient of the weights: all images for some channels."""

    def write(self) -> None:
        """The step."""
        e, b, g, tiling = self.e, self.b, self.g, self.tiling
        self.part = e.indices.scalar(b.grid_indices[0], 0, g.parts - 1)
        block = e.indices.scalar(b.grid_indices[2], 0, tiling.channel_blocks - 1)
        c, skipped = self.first_channel(block)
        scratch = b.alloc(self.of, g.rows(tiling.rows) * g.columns * tiling.width)
        taps, lanes = prod(g.taps), tiling.lanes
        totals = b.alloc(self.of, taps * tiling.width)
        zero = b.constant(self.of, 0, (lanes,))
        every = constant(taps * tiling.width)
        self.each(ZERO, every, lanes, lambda k: b.store(totals, e.scalar(k), zero, (1,)))

        def image(n: Affine) -> None:
            def rows(row: Affine) -> None:
                end = self.least(row.plus(tiling.rows), g.out[0])
                self.pack(scratch, self.i.operands[0], n, row, c, end.plus(row.times(-1)))
                self.each(
                    ZERO,
                    constant(tiling.vectors),
                    1,
                    lambda v: self._add(scratch, totals, n, row, end, c, v),
                )

            e.loop(g.out[0], (), lambda r: (rows(r), ())[1], step=tiling.rows)

        self.each(ZERO, constant(g.images), 1, image)

        def finish(k: Affine) -> None:
            tap, v = e.indices.digits(k, [taps, tiling.vectors])
            y, x = e.indices.digits(tap, g.taps)

            def store(first: int, channel_count: int) -> None:
                e.tile = (channel_count,)
                value = b.load(totals, e.scalar(k.times(lanes).plus(first)), e.tile, (1,))
                channel = (
                    c.plus(v.times(lanes)).plus(first).plus(e.indices.lane(0, channel_count, 1))
                )
                self.finish_at(value, self.place(ZERO, y, x, channel))

            self.by_channels(skipped, v, store)

        self.each(ZERO, constant(taps * tiling.vectors), 1, finish)

    def _add(
        self,
        scratch: Value,
        totals: Value,
        image: Affine,
        row: Affine,
        end: Affine,
        c: Affine,
        v: Affine,
    ) -> None:
        """Add what some rows of gradients give to the sums of one vector of channels."""
        e, b, g, tiling = self.e, self.b, self.g, self.tiling
        lanes, vectors, taps = tiling.lanes, tiling.vectors, prod(g.taps)

        def at_total(k: int) -> Value:
            return e.scalar(v.plus(k * vectors).times(lanes))

        sums = [b.constant(self.of, 0, (lanes,)) for _ in range(taps)]
        restart = sum_restart(e, sums)

        def line(r: Affine, *carried: Value) -> tuple[Value, ...]:
            start = r.plus(row.times(-1)).times(g.stride[0] * g.columns)

            def one(w: Affine, *sums: Value) -> tuple[Value, ...]:
                e.tile = (lanes,)
                channel = c.plus(v.times(lanes)).plus(e.indices.lane(0, lanes, 1))
                factor = self.read(self.i.operands[1], image, r, w, channel, False)
                at = start.plus(w.times(g.stride[1])).times(tiling.width).plus(v.times(lanes))
                totals = []
                for k, total in enumerate(sums):
                    y, x = divmod(k, g.taps[1])
                    offset = (y * g.dilation[0] * g.columns + x * g.dilation[1]) * tiling.width
                    value = b.load(scratch, e.scalar(at.plus(offset)), (lanes,), (1,))
                    totals.append(multiply_add(e, value, factor, total))
                return tuple(totals)

            return blocked_loop(e, g.out[1], carried, one, restart, run=LINE_RUN)

        def write(k: Value, *carried: Value) -> tuple[Value, ...]:
            return line(e.indices.scalar(k, 0, g.out[0] - 1), *carried)

        lines = max(1, 2 * LINE_RUN // g.out[1])

        def block(k: Value, *carried: Value) -> tuple[Value, ...]:
            last = b.binary("minimum", b.binary("add", k, b.index(lines)), e.scalar(end))
            block_sums = e.for_(k, last, 1, sums, write)
            return tuple([b.binary("add", x, y) for x, y in zip(carried, block_sums)])

        line_sums = e.for_(e.scalar(row), e.scalar(end), lines, sums, block)
        for k, x in enumerate(line_sums):
            before = b.load(totals, at_total(k), (lanes,), (1,))
            b.store(totals, at_total(k), b.binary("add", before, x), (1,))
