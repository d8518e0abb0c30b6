"""Depthwise convolutions and their weight gradients: lanes along channels, window written out.

A step owns some rows of the result of one image and a block of channels. It packs the rows of the
input that these need, with zeros where the window hangs over the edge, so that what multiplies is
free of conditions: a few neighbouring results share the inputs they load, the weights stay in
registers. The gradient keeps one sum for every place of the window instead.
"""

from __future__ import annotations

from math import prod

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.blocked_fold import blocked_loop, sum_restart
from hloom.codegen.depthwise_pack import DepthwiseWriter
from hloom.codegen.depthwise_shape import DepthwiseTiling, Geometry, is_gradient
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
        totals = self.totals(c, c)
        taps, lanes = prod(g.taps), tiling.lanes

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

    @property
    def lanes(self) -> int:
        """Elements of a sum."""
        return self.tiling.lanes

    @property
    def vectors(self) -> int:
        """Sums for each place of the window."""
        return self.tiling.vectors

    def factor(self, image: Affine, row: Affine, column: Affine, c: Affine, v: Affine) -> Value:
        """What the sums of number `v` multiply of the gradient at a place, from channel c on."""
        self.e.tile = (self.lanes,)
        channel = c.plus(v.times(self.lanes)).plus(self.e.indices.lane(0, self.lanes, 1))
        return self.read(self.i.operands[1], image, row, column, channel, False)

    def totals(self, first: Affine, c: Affine) -> Value:
        """The sums over all images: of the input's channels from `first` on with those of the
        gradient from c on; for each place of the window one vector after another."""
        e, b, g, tiling = self.e, self.b, self.g, self.tiling
        scratch = b.alloc(self.of, g.rows(tiling.rows) * g.columns * self.place_size)
        size, lanes = prod(g.taps) * self.vectors * self.lanes, self.lanes
        totals = b.alloc(self.of, size)
        zero = b.constant(self.of, 0, (lanes,))
        self.each(ZERO, constant(size), lanes, lambda k: b.store(totals, e.scalar(k), zero, (1,)))

        def image(n: Affine) -> None:
            def rows(row: Affine) -> None:
                end = self.least(row.plus(tiling.rows), g.out[0])
                self.pack(scratch, self.i.operands[0], n, row, first, end.plus(row.times(-1)))
                self.each(
                    ZERO,
                    constant(self.vectors),
                    1,
                    lambda v: self._add(scratch, totals, n, row, end, c, v),
                )

            e.loop(g.out[0], (), lambda r: (rows(r), ())[1], step=tiling.rows)

        self.each(ZERO, constant(g.images), 1, image)
        return totals

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
        e, b, g = self.e, self.b, self.g
        lanes, vectors, taps = self.lanes, self.vectors, prod(g.taps)

        def at_total(k: int) -> Value:
            return e.scalar(v.plus(k * vectors).times(lanes))

        sums = [b.constant(self.of, 0, (lanes,)) for _ in range(taps)]
        restart = sum_restart(e, sums)

        def line(r: Affine, *carried: Value) -> tuple[Value, ...]:
            start = r.plus(row.times(-1)).times(g.stride[0] * g.columns)

            def one(w: Affine, *sums: Value) -> tuple[Value, ...]:
                factor = self.factor(image, r, w, c, v)
                at = start.plus(w.times(g.stride[1])).times(self.place_size).plus(v.times(lanes))
                totals = []
                for k, total in enumerate(sums):
                    y, x = divmod(k, g.taps[1])
                    offset = (y * g.dilation[0] * g.columns + x * g.dilation[1]) * self.place_size
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
