"""Convolutions of small groups: the results of several groups side by side in a vector.

As products each group would fill a part of a vector: four features of sixteen lanes. Here a vector
holds the results of as many groups as fit. A step packs the rows of the input that its results
need, once for each feature of a group: lane by lane the feature that the lane's group reads there.
What multiplies is then as in a depthwise convolution, each result a sum over the window and the
features of its group: one vector of the input and one of weights for each, no lane wasted. So is
the gradient of the weights, with a vector of sums for each place of the window and feature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.blocked_fold import DEEP_RUN, blocked_loop, chain_of, sum_restart
from hloom.codegen.depthwise import GradientWriter
from hloom.codegen.depthwise_pack import DepthwiseWriter
from hloom.codegen.depthwise_shape import MOST_TAPS, DepthwiseTiling, is_gradient
from hloom.codegen.grouped_shape import GroupedShape
from hloom.codegen.row_products import accumulator_type, multiply_add
from hloom.codegen.tile import Body, Emitted, KernelEmitter
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value

# So many features of a group are packed without a loop.
WRITTEN_OUT = 8


def grouped_kernel(body: Body, i: Instruction, shape: GroupedShape, device: Device) -> Emitted:
    """The kernel of a body whose anchor is a convolution of small groups."""
    tiling = shape.tiling(max(accumulator_type(i.shape.dtype).size_bytes, 1), device)
    if is_gradient(i):
        emitter = KernelEmitter(body, (1, 1, tiling.channel_blocks), device)
        GroupedGradientWriter(emitter, i, shape, tiling).write()
        return emitter.finish()
    grid = (shape.geometry.images, tiling.row_blocks, tiling.channel_blocks)
    emitter = KernelEmitter(body, grid, device)
    GroupedForwardWriter(emitter, i, shape, tiling).write()
    return emitter.finish()


class GroupedWriter(DepthwiseWriter):
    """What both forms have in common: packing the input."""

    def __init__(
        self, emitter: KernelEmitter, i: Instruction, shape: GroupedShape, tiling: DepthwiseTiling
    ) -> None:
        super().__init__(emitter, i, shape.geometry, tiling)
        self.shape = shape
        self.place_size = shape.place_size
        self.line: Value | None = None

    def first_group(self, number: Value) -> tuple[Affine, Affine]:
        """The first group of a block, the last one moved back; and how many it then shares."""
        joined, groups = self.shape.joined, self.shape.groups
        start = self.e.indices.scalar(number, 0, self.tiling.channel_blocks - 1).times(joined)
        group = self.least(start, groups - joined)
        self.line = self.b.alloc(self.of, self.g.columns * self.tiling.width)
        return group, start.plus(group.times(-1))

    def _without_shared(self, skipped: Affine, body: Callable[[int, int], None]) -> None:
        """`body(first lane, lanes)` for the lanes that are results of no block before."""
        shape = self.shape
        rest = shape.groups % shape.joined * shape.outputs
        if rest == 0:
            body(0, shape.filled)
            return
        whole = self.b.compare("EQ", self.e.scalar(skipped), self.b.index(0))
        one = self.b.select(whole, self.b.index(1), self.b.index(0))
        border = self.e.indices.scalar(one, 0, 1)
        self.each(ZERO, border, 1, lambda _: body(0, shape.filled))
        self.each(border, constant(1), 1, lambda _: body(shape.filled - rest, rest))

    # -- packing

    def zero(self, scratch: Value, at: Affine, low: int, high: int) -> None:
        """Zeros in some columns of a packed row."""
        lanes, size, e, b = self.shape.lanes, self.place_size, self.e, self.b

        def one(k: Affine) -> None:
            b.store(scratch, e.scalar(at.plus(k)), b.constant(self.of, 0, (lanes,)), (1,))

        self.each(constant(low * size), constant(high * size), lanes, one)

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
        """The columns `low` to `high` of a packed row: as they are into a line, then from there
        for each feature of a group the vector that meets its weights."""
        e, b, shape, line = self.e, self.b, self.shape, self.line
        assert line is not None
        super().row(line, ZERO, x, image, row, c, low, high)

        def one(k: Affine) -> None:
            def feature(f: Affine) -> None:
                e.tile = (shape.filled,)
                number = e.indices.quotient(e.indices.lane(0, shape.filled, 1), shape.outputs)
                offset = k.times(self.tiling.width).plus(number.times(shape.features)).plus(f)
                value = b.broadcast(e.load_at(line, offset, None), e.tile)
                place = at.plus(k.times(self.place_size)).plus(f.times(shape.lanes))
                b.store(scratch, e.scalar(place), self._whole_vector(value), (1,))

            if shape.features > WRITTEN_OUT:
                self.each(ZERO, constant(shape.features), 1, feature)
                return
            for f in range(shape.features):
                feature(constant(f))

        self.each(constant(low), constant(high), 1, one)

    def _whole_vector(self, value: Value) -> Value:
        """A vector of results, with zeros to its end."""
        rest = self.shape.lanes - value.shape[0]
        if rest == 0:
            return value
        return self.b.concatenate([value, self.b.constant(self.of, 0, (rest,))], 0)


class GroupedForwardWriter(GroupedWriter):
    """Writes one step of a convolution of small groups."""

    def write(self) -> None:
        """The step."""
        e, b, g, tiling, shape = self.e, self.b, self.g, self.tiling, self.shape
        grid = b.grid_indices
        image = e.indices.scalar(grid[0], 0, g.images - 1)
        row = e.indices.scalar(grid[1], 0, tiling.row_blocks - 1).times(tiling.rows)
        end = self.least(row.plus(tiling.rows), g.out[0])
        group, skipped = self.first_group(grid[2])
        weights = b.alloc(self.of, prod(g.taps) * shape.place_size)
        self._pack_weights(weights, group.times(shape.outputs))
        scratch = b.alloc(self.of, g.rows(tiling.rows) * g.columns * shape.place_size)
        first = group.times(shape.features)
        self.pack(scratch, self.i.operands[0], image, row, first, end.plus(row.times(-1)))

        def results(r: Affine) -> None:
            def some(w: Affine, count: int) -> None:
                at = r.plus(row.times(-1)).times(g.stride[0] * g.columns)
                at = at.plus(w.times(g.stride[1])).times(shape.place_size)
                sums = self._sums(scratch, weights, at, count)

                def store(lane: int, count_of_lanes: int) -> None:
                    e.tile = (count, count_of_lanes)
                    channel = group.times(shape.outputs).plus(lane)
                    channel = channel.plus(e.indices.lane(1, count_of_lanes, 2))
                    column = w.plus(e.indices.lane(0, count, 2))
                    x = b.slice(sums, 1, lane, count_of_lanes)
                    self.finish_at(x, self.place(image, r, column, channel))

                self._without_shared(skipped, store)

            near = shape.neighbours(e.device)
            whole = g.out[1] - g.out[1] % near
            self.each(ZERO, constant(whole), near, lambda w: some(w, near))
            if whole < g.out[1]:
                some(constant(whole), g.out[1] - whole)

        self.each(row, end, 1, results)

    def _pack_weights(self, weights: Value, c: Affine) -> None:
        """For every place of the window and feature of a group a vector, from a channel on."""
        e, b, g, shape = self.e, self.b, self.g, self.shape
        rhs, labels = self.i.operands[1], self.labels
        spatial = labels.kernel_spatial_dimensions

        def one(k: Affine) -> None:
            y, x, f = e.indices.digits(k, [*g.taps, shape.features])
            e.tile = (shape.filled,)
            at = [ZERO] * rhs.shape.rank
            at[spatial[-1]] = x
            if len(spatial) > 1:
                at[spatial[0]] = y
            at[labels.kernel_input_feature_dimension] = f
            at[labels.kernel_output_feature_dimension] = c.plus(e.indices.lane(0, shape.filled, 1))
            value = b.broadcast(b.convert(e.value(rhs, tuple(at)), self.of), e.tile)
            place = k.times(shape.lanes)
            b.store(weights, e.scalar(place), self._whole_vector(value), (1,))

        self.each(ZERO, constant(prod(g.taps) * shape.features), 1, one)

    # -- multiplying

    def _sums(self, scratch: Value, weights: Value, at: Affine, count: int) -> Value:
        """Neighbouring results as a tile [count, lanes]."""
        e, b, g, shape = self.e, self.b, self.g, self.shape
        lanes, size = shape.lanes, shape.place_size
        sums = [b.constant(self.of, 0, (lanes,)) for _ in range(count)]
        restart = sum_restart(e, sums)
        together = 1 if prod(g.taps) > MOST_TAPS else g.taps[0]
        line = g.dilation[0] * g.columns * size

        def rows(y: Affine, *totals: Value) -> Sequence[Value]:
            def feature(f: Affine, *now: Value) -> Sequence[Value]:
                new = list(now)
                for k in range(together):
                    start = at.plus(y.plus(k).times(line)).plus(f.times(lanes))
                    first = y.plus(k).times(g.taps[1] * size).plus(f.times(lanes))
                    self._add_row(scratch, weights, start, first, new)
                return new

            chain = together * g.taps[1]
            return blocked_loop(
                e, shape.features, totals, feature, restart, chain=chain, run=DEEP_RUN
            )

        if together == g.taps[0]:
            sums = rows(ZERO, *sums)
        else:
            chain = chain_of(shape.features, g.taps[1], run=DEEP_RUN)
            sums = blocked_loop(e, g.taps[0], sums, rows, restart, chain=chain, run=DEEP_RUN)
        return b.concatenate([b.reshape(x, (1, lanes)) for x in sums], 0)

    def _add_row(
        self, scratch: Value, weights: Value, at: Affine, first: Affine, sums: list[Value]
    ) -> None:
        """Add what one row of the window gives for one feature of each group."""
        e, b, g, lanes = self.e, self.b, self.g, self.shape.lanes
        known: dict[int, Value] = {}
        for x in range(g.taps[1]):
            place = e.scalar(first.plus(x * self.place_size))
            weight = b.load(weights, place, (lanes,), (1,))
            for n, total in enumerate(sums):
                column = n * g.stride[1] + x * g.dilation[1]
                if column not in known:
                    offset = e.scalar(at.plus(column * self.place_size))
                    known[column] = b.load(scratch, offset, (lanes,), (1,))
                sums[n] = multiply_add(e, known[column], weight, total)


class GroupedGradientWriter(GroupedWriter, GradientWriter):
    """Writes one step of the gradient of the weights: all images for a vector of groups."""

    @property
    def lanes(self) -> int:
        return self.shape.lanes

    @property
    def vectors(self) -> int:
        return self.shape.features

    def factor(self, image: Affine, row: Affine, column: Affine, c: Affine, v: Affine) -> Value:
        """The gradient of the results of all groups; each feature of theirs meets the same."""
        self.e.tile = (self.shape.filled,)
        channel = c.plus(self.e.indices.lane(0, self.shape.filled, 1))
        value = self.read(self.i.operands[1], image, row, column, channel, False)
        return self._whole_vector(value)

    def write(self) -> None:
        """The step."""
        e, b, g, shape = self.e, self.b, self.g, self.shape
        group, skipped = self.first_group(b.grid_indices[2])
        c = group.times(shape.outputs)
        totals = self.totals(group.times(shape.features), c)
        taps = prod(g.taps)

        def finish(k: Affine) -> None:
            y, x, f = e.indices.digits(k, [*g.taps, shape.features])

            def store(lane: int, count: int) -> None:
                e.tile = (count,)
                at = e.scalar(k.times(shape.lanes).plus(lane))
                value = b.load(totals, at, e.tile, (1,))
                channel = c.plus(lane).plus(e.indices.lane(0, count, 1))
                self.finish_at(value, self.place(f, y, x, channel))

            self._without_shared(skipped, store)

        self.each(ZERO, constant(taps * shape.features), 1, finish)
