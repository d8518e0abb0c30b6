"""Convolutions that make few features of many: lanes along the features that are read.

As a product of matrices most lanes would be empty: three features of a vector of sixteen. Here
vectors go along the input's features, so that each sum is one of lanes, added up in the end. A step
owns some rows of the result of one image. It packs the weights with those of an output side by
side, and the rows of the input with zeros where the window hangs over the edge; then a tile of
neighbouring results for every output is kept in registers, free of conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.blocked_fold import blocked_loop, chain_of, sum_restart
from hloom.codegen.depthwise_pack import DepthwiseWriter
from hloom.codegen.depthwise_shape import (
    MOST_COLUMNS,
    MOST_SCRATCH_SHARE,
    STEPS_PER_UNIT,
    DepthwiseTiling,
    Geometry,
    is_gradient,
)
from hloom.codegen.gemm_skinny import ALONG_RUN
from hloom.codegen.gemm_tiling import share_bytes
from hloom.codegen.packing import packing_of
from hloom.codegen.product import fastest
from hloom.codegen.row_products import accumulator_type, multiply_add
from hloom.codegen.tile import Body, Emitted, KernelEmitter
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value

# With more outputs, or more than a vector has lanes, a product fills as many lanes. So does one of
# integers of 8 bits that the device multiplies in groups of four from fewer on, and where features
# leave lanes empty. On one core, of the product's time: s8 with VNNI 128 features to 6 outputs 0.8,
# 32, 64 and 128 to 8 1.0 to 1.4; 24 of 32 lanes to 3 0.6, to 6 0.9 to 1.35; without it to 8 0.6.
MOST_OUTPUTS = 8
MOST_OF_GROUPS = 6
GROUP = 4
# The least part of the lanes that features must fill.
LEAST_FILLED = 0.7
# Neighbouring results that are computed together at most.
MOST_NEIGHBOURS = 8
# What the packed rows of the input for a step may take of the second-level cache: the weights are
# packed for each step.
ROWS_SHARE = 3 / 8
# Packed weights may take as much of the second-level cache as the rows of the input.
MOST_WEIGHTS_SHARE = 1 / 4


@dataclass(frozen=True)
class NarrowShape:
    """A convolution of few outputs: its geometry, with channels in whole vectors."""

    geometry: Geometry
    features: int
    outputs: int
    lanes: int

    @property
    def vectors(self) -> int:
        """Vectors of features of a place."""
        return self.geometry.channels // self.lanes


def narrow_shape(i: Instruction, leaves: set[Instruction], device: Device) -> NarrowShape | None:
    """What kind of convolution it is; None if it is none of few outputs that is handled here."""
    labels, a = i.attrs.dim_labels, i.attrs
    dims = a.window.dimensions
    lhs, rhs = i.operands
    if is_gradient(i) or a.feature_group_count != 1 or not 1 <= len(dims) <= 2:
        return None
    of = accumulator_type(i.shape.dtype)
    if of.is_complex or of.bits < 8 or any(w.base_dilation != 1 or w.window_reversal for w in dims):
        return None
    lanes = max(device.compute.vector_bytes // max(of.size_bytes, 1), 1)
    features = lhs.shape.dims[labels.input_feature_dimension]
    outputs = i.shape.dims[labels.output_feature_dimension]
    width = -(-features // lanes) * lanes
    if outputs > min(MOST_OUTPUTS, lanes) or features < lanes * LEAST_FILLED:
        return None
    is_grouped = of.is_integral and packing_of(lhs, rhs, of, leaves, device).group >= GROUP
    if outputs * width > (MOST_OF_GROUPS * features if is_grouped else MOST_OUTPUTS * width):
        return None
    if any(max(w.padding_low, w.padding_high) >= w.size * w.window_dilation for w in dims):
        return None  # rows of nothing but padding
    taps = [rhs.shape.dims[d] for d in labels.kernel_spatial_dimensions]
    places = [i.shape.dims[d] for d in labels.output_spatial_dimensions]
    size = [lhs.shape.dims[d] for d in labels.input_spatial_dimensions]
    images = lhs.shape.dims[labels.input_batch_dimension]
    if features < width * LEAST_FILLED or 0 in (*places, *size, *taps, images, outputs):
        return None
    if fastest(lhs, leaves) != labels.input_feature_dimension:
        return None
    g = Geometry(
        images,
        width,
        _pair(size, 1),
        _pair(places, 1),
        _pair(taps, 1),
        _pair([w.stride for w in dims], 1),
        _pair([w.window_dilation for w in dims], 1),
        _pair([w.padding_low for w in dims], 0),
    )
    element = max(of.size_bytes, 1)
    row_bytes = g.rows(1) * g.columns * width * element
    weight_bytes = prod(g.taps) * width * outputs * element
    fits = (
        g.columns <= MOST_COLUMNS
        and row_bytes <= share_bytes(device, MOST_SCRATCH_SHARE)
        and weight_bytes <= share_bytes(device, MOST_WEIGHTS_SHARE)
    )
    return NarrowShape(g, features, outputs, lanes) if fits else None


def _pair(values: Sequence[int], filler: int) -> tuple[int, int]:
    one, two = (filler, *values)[-2:]
    return one, two


def narrow_kernel(body: Body, i: Instruction, shape: NarrowShape, device: Device) -> Emitted:
    """The kernel of a body whose anchor is a convolution of few outputs."""
    g = shape.geometry
    element = max(accumulator_type(i.shape.dtype).size_bytes, 1)
    room = share_bytes(device, ROWS_SHARE) // (g.columns * g.channels * element)
    wished_blocks = -(-STEPS_PER_UNIT * device.compute.units // g.images)
    rows = min(max(1, (room - g.rows(1)) // g.stride[0] + 1), -(-g.out[0] // wished_blocks))
    row_blocks = -(-g.out[0] // rows)
    rows = -(-g.out[0] // row_blocks)
    tiling = DepthwiseTiling(shape.lanes, shape.vectors, 1, rows, row_blocks)
    emitter = KernelEmitter(body, (g.images, row_blocks), device)
    NarrowWriter(emitter, i, shape, tiling).write()
    return emitter.finish()


class NarrowWriter(DepthwiseWriter):
    """Writes one step of a convolution of few outputs."""

    def __init__(
        self, emitter: KernelEmitter, i: Instruction, shape: NarrowShape, tiling: DepthwiseTiling
    ) -> None:
        super().__init__(emitter, i, shape.geometry, tiling)
        self.shape = shape
        most = most_neighbours(shape.outputs, self.e.device.compute.vector_registers)
        self.neighbours = _neighbours(shape.geometry.out[1], most)

    def write(self) -> None:
        """The step."""
        e, b, g, tiling = self.e, self.b, self.g, self.tiling
        image = e.indices.scalar(b.grid_indices[0], 0, g.images - 1)
        row = e.indices.scalar(b.grid_indices[1], 0, tiling.row_blocks - 1).times(tiling.rows)
        end = self.least(row.plus(tiling.rows), g.out[0])
        weights = b.alloc(self.of, prod(g.taps) * tiling.width * self.shape.outputs)
        self._pack_weights(weights)
        scratch = b.alloc(self.of, g.rows(tiling.rows) * g.columns * tiling.width)
        self.pack(scratch, self.i.operands[0], image, row, ZERO, end.plus(row.times(-1)))

        outputs, places = self.shape.outputs, g.out[1]
        line = b.alloc(self.of, places * outputs)

        def results(r: Affine) -> None:
            start = r.plus(row.times(-1)).times(g.stride[0] * g.columns)

            def some(w: Affine) -> None:
                at = start.plus(w.times(g.stride[1])).times(tiling.width)
                sums = self._sums(scratch, weights, at, self.neighbours)
                b.store(line, e.scalar(w.times(outputs)), sums, (1,))

            def finish(w: Affine) -> None:
                e.tile = (outputs,) if outputs > 1 else ()
                of_one = b.load(line, e.scalar(w.times(outputs)), e.tile, (1,) * len(e.tile))
                output = e.indices.lane(0, outputs, 1)
                self.finish_at(of_one, self.place(image, r, w, output))

            self.each(ZERO, constant(places), self.neighbours, some)
            self.each(ZERO, constant(places), 1, finish)

        self.each(row, end, 1, results)

    # -- packing

    def _vectors(self) -> list[tuple[int, int]]:
        """Where vectors of features begin, and how many features they have."""
        lanes, features = self.shape.lanes, self.shape.features
        return [(at, min(lanes, features - at)) for at in range(0, self.tiling.width, lanes)]

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
        """The columns `low` to `high` of a packed row, vector by vector of features."""
        e, b, width = self.e, self.b, self.tiling.width
        shift = -self.g.padding[1]
        if high <= low:
            return
        whole = self.shape.features // self.shape.lanes

        def one(k: Affine) -> None:
            place = at.plus(k.times(width))

            def vector(v: Affine, lanes: int = self.shape.lanes) -> None:
                e.tile = (lanes,)
                channel = c.plus(v.times(self.shape.lanes)).plus(e.indices.lane(0, lanes, 1))
                value = self.read(x, image, row, k.plus(shift), channel, True)
                value = self._whole_vectors(value)
                b.store(scratch, e.scalar(place.plus(v.times(self.shape.lanes))), value, (1,))

            self.each(ZERO, constant(whole), 1, vector)
            if whole < self.shape.vectors:
                vector(constant(whole), self._vectors()[-1][1])

        self.each(constant(low), constant(high), 1, one)

    def zero(self, scratch: Value, at: Affine, low: int, high: int) -> None:
        """Zeros in some columns of a packed row."""
        lanes, width, e, b = self.shape.lanes, self.tiling.width, self.e, self.b

        def one(k: Affine) -> None:
            b.store(scratch, e.scalar(at.plus(k)), b.constant(self.of, 0, (lanes,)), (1,))

        self.each(constant(low * width), constant(high * width), lanes, one)

    def _whole_vectors(self, value: Value) -> Value:
        """Vectors of some features, with zeros to the end."""
        *rows, count = value.shape
        rest = self.shape.lanes - count
        if rest == 0:
            return value
        zeros = self.b.constant(self.of, 0, (*rows, rest))
        return self.b.concatenate([value, zeros], len(rows))

    def _pack_weights(self, weights: Value) -> None:
        """For every place of the window and vector of features the outputs one after another."""
        e, b, g = self.e, self.b, self.g
        rhs, labels, lanes = self.i.operands[1], self.labels, self.shape.lanes
        spatial, outputs = labels.kernel_spatial_dimensions, self.shape.outputs

        def tap(t: Affine) -> None:
            y, x = e.indices.digits(t, list(g.taps))
            for n, (first, count) in enumerate(self._vectors()):
                e.tile = (outputs, count)
                at = [ZERO] * rhs.shape.rank
                at[spatial[-1]] = x
                if len(spatial) > 1:
                    at[spatial[0]] = y
                at[labels.kernel_output_feature_dimension] = e.indices.lane(0, outputs, 2)
                feature = e.indices.lane(1, count, 2).plus(first)
                at[labels.kernel_input_feature_dimension] = feature
                value = b.broadcast(b.convert(e.value(rhs, tuple(at)), self.of), e.tile)
                value = self._whole_vectors(value)
                place = t.times(self.shape.vectors).plus(n).times(outputs * lanes)
                b.store(weights, e.scalar(place), value, (lanes, 1))

        self.each(ZERO, constant(prod(g.taps)), 1, tap)

    # -- multiplying

    def _sums(self, scratch: Value, weights: Value, at: Affine, count: int) -> Value:
        """Neighbouring results, those of a place side by side: [count * outputs]."""
        e, b, g = self.e, self.b, self.g
        lanes, outputs, width = self.shape.lanes, self.shape.outputs, self.tiling.width
        joined = g.taps[1] if g.dilation[1] == 1 else 1
        run = joined * self.shape.vectors
        outer = [g.taps[0], g.taps[1] // joined]
        sums = [b.constant(self.of, 0, (lanes,)) for _ in range(count * outputs)]
        restart = sum_restart(e, sums)

        def taps(t: Affine, *totals: Value) -> Sequence[Value]:
            y, x = e.indices.digits(t, outer)
            start = y.times(g.dilation[0] * g.columns).plus(x.times(g.dilation[1])).times(width)
            start = at.plus(start)

            def step(k: Affine, *now: Value) -> Sequence[Value]:
                e.tile = (lanes,)
                where = start.plus(k.times(lanes))
                base = t.times(run).plus(k).times(outputs * lanes)

                def place_at(n: int) -> Value:
                    place = where.plus(n * g.stride[1] * width)
                    return b.load(scratch, e.scalar(place), (lanes,), (1,))

                def weight(o: int) -> Value:
                    return b.load(weights, e.scalar(base.plus(o * lanes)), (lanes,), (1,))

                # The fewer stay in registers, the others are loaded one after another.
                new = list(now)
                if outputs <= count:
                    held = [weight(o) for o in range(outputs)]
                    for n in range(count):
                        x = place_at(n)
                        for o in range(outputs):
                            new[n * outputs + o] = multiply_add(e, x, held[o], now[n * outputs + o])
                    return new
                held = [place_at(n) for n in range(count)]
                for o in range(outputs):
                    x = weight(o)
                    for n in range(count):
                        new[n * outputs + o] = multiply_add(e, held[n], x, now[n * outputs + o])
                return new

            return blocked_loop(e, run, totals, step, restart, run=ALONG_RUN)

        chain = chain_of(run, run=ALONG_RUN)
        sums = blocked_loop(e, prod(outer), sums, taps, restart, chain=chain, run=ALONG_RUN)
        rows = b.concatenate([b.reshape(x, (1, lanes)) for x in sums], 0)
        return b.reduce(rows, 1, "add")


def most_neighbours(outputs: int, registers: int) -> int:
    """How many results of a row have their sums in registers, beside what is multiplied."""
    fitting = [
        n for n in range(1, MOST_NEIGHBOURS + 1) if n * outputs + min(n, outputs) + 1 < registers
    ]
    return max(fitting, default=1)


def _neighbours(places: int, most: int) -> int:
    """How many results of a row are computed together, so that the last ones are not too few."""
    most = min(most, places)
    least = max(1, (most + 1) // 2)
    return min(range(least, most + 1), key=lambda n: (-(-places // n) * (n + 1), -n))
