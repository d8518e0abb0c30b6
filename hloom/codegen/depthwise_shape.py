"""What a depthwise convolution is, whichever way round, and how it is cut into steps."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hloom.analysis.shared_window import shared_parts
from hloom.codegen.gemm_tiling import share_bytes
from hloom.device.device import Device
from hloom.ir.instruction import Instruction

# What a step packs should stay close: a share of the second-level cache.
SCRATCH_SHARE = 5 / 32
# What the rows of the input for one row of results may take, too: a window that is spread over many
# long rows is no depthwise kernel.
MOST_SCRATCH_SHARE = 1 / 2
# Steps wanted for each core.
STEPS_PER_UNIT = 4
# Rows of the input that steps may read in all, times those that there are, so that each core has
# rows of its own.
MOST_REPEATED = 4 / 3
# Weights or sums kept in registers.
MOST_TAPS = 25
LEAST_CHANNELS = 8
# Vectors of channels that a step takes, side by side in memory.
MOST_VECTORS = 4
# Columns of a packed row.
MOST_COLUMNS = 4096


@dataclass
class Geometry:
    """A depthwise convolution over rows and columns (one row where there is one dimension).

    Input position = place * stride + tap * dilation - padding.
    """

    images: int
    channels: int
    size: tuple[int, int]
    out: tuple[int, int]
    taps: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]
    parts: int = 1
    """Gradients that are computed apart, each of so many images."""

    @property
    def columns(self) -> int:
        """Columns of a packed row of the input."""
        return (self.out[1] - 1) * self.stride[1] + (self.taps[1] - 1) * self.dilation[1] + 1

    def rows(self, results: int) -> int:
        """Rows of the input that so many rows of results need."""
        return (results - 1) * self.stride[0] + (self.taps[0] - 1) * self.dilation[0] + 1


def geometry(i: Instruction, device: Device) -> Geometry | None:
    """What kind of depthwise convolution it is; None if it is none that is handled here."""
    labels, a = i.attrs.dim_labels, i.attrs
    dims = a.window.dimensions
    lhs, rhs = i.operands
    gradient = is_gradient(i)
    parts = shared_parts(i) if gradient else 1
    skipped = 1 if parts > 1 else 0
    dims = dims[skipped:]
    groups = a.batch_group_count if gradient else a.feature_group_count
    channels = i.shape.dims[labels.output_feature_dimension]
    if not 1 <= len(dims) <= 2 or groups != channels or channels < LEAST_CHANNELS:
        return None
    if any(w.base_dilation != 1 or w.window_reversal for w in dims) or i.shape.dtype.is_complex:
        return None
    if gradient and (a.feature_group_count != 1 or any(w.stride != 1 for w in dims)):
        return None
    own = labels.input_batch_dimension if gradient else labels.input_feature_dimension
    if lhs.shape.dims[own] != channels:
        return None
    images = lhs.shape.dims[
        labels.input_feature_dimension if gradient else labels.input_batch_dimension
    ]
    places = tuple(i.shape.dims[d] for d in labels.output_spatial_dimensions[skipped:])
    window = tuple(rhs.shape.dims[d] for d in labels.kernel_spatial_dimensions[skipped:])
    size = tuple(lhs.shape.dims[d] for d in labels.input_spatial_dimensions[skipped:])
    steps = tuple(w.stride for w in dims)
    dilations = tuple(w.window_dilation for w in dims)
    out, taps = (window, places) if gradient else (places, window)
    stride, dilation = (dilations, steps) if gradient else (steps, dilations)
    if prod(taps) > MOST_TAPS or 0 in (*out, *size, images):
        return None
    padding = tuple(w.padding_low for w in dims)
    geometry_ = Geometry(
        images,
        channels,
        pair(size, 1),
        pair(out, 1),
        pair(taps, 1),
        pair(stride, 1),
        pair(dilation, 1),
        pair(padding, 0),
        parts,
    )
    least_bytes = geometry_.rows(1) * geometry_.columns * device.compute.vector_bytes
    most_bytes = share_bytes(device, MOST_SCRATCH_SHARE)
    fits = geometry_.columns <= MOST_COLUMNS and least_bytes <= most_bytes
    return geometry_ if fits else None


def pair(values: tuple[int, ...], filler: int) -> tuple[int, int]:
    """The numbers of rows and columns; of columns only, with a filler for rows."""
    one, two = (filler, *values)[-2:]
    return one, two


def is_gradient(i: Instruction) -> bool:
    """Whether it is the gradient of weights."""
    return i.attrs.convolution_kind == "wgrad" or i.attrs.batch_group_count != 1


@dataclass
class DepthwiseTiling:
    """How a depthwise convolution is cut: channels of a step in vectors, rows of results."""

    lanes: int
    vectors: int
    channel_blocks: int
    rows: int
    row_blocks: int

    @property
    def width(self) -> int:
        """Channels of a step."""
        return self.lanes * self.vectors

    @staticmethod
    def of(
        g: Geometry, lanes: int, element: int, gradient: bool, device: Device
    ) -> DepthwiseTiling:
        scratch_bytes = int(device.near_bytes * SCRATCH_SHARE)
        steps = STEPS_PER_UNIT * device.compute.units
        groups = g.channels // lanes
        most = MOST_VECTORS
        divisors = [v for v in range(most, 0, -1) if g.channels % lanes == 0 and groups % v == 0]
        least_rows = g.rows(1 if gradient else min(4, g.out[0]))
        vectors = 1
        for v in divisors:
            small = least_rows * g.columns * v * lanes * element <= scratch_bytes
            if small and groups // v * (g.parts if gradient else g.images) >= steps // 2:
                vectors = v
                break
        channel_blocks = -(-g.channels // (vectors * lanes))
        room = scratch_bytes // (g.columns * vectors * lanes * element)
        rows = max(1, min(g.out[0], (room - g.rows(1)) // g.stride[0] + 1))
        if not gradient:
            wished_blocks = -(-steps // (channel_blocks * g.images))
            # Products before and after it are cut by rows: each core reads what it wrote.
            apart = -(-device.compute.units // g.images)
            repeated = apart * g.rows(-(-g.out[0] // apart))
            if repeated <= g.rows(g.out[0]) * MOST_REPEATED:
                wished_blocks = max(wished_blocks, apart)
            rows = max(min(rows, -(-g.out[0] // wished_blocks)), min(4, g.out[0], rows))
        row_blocks = -(-g.out[0] // rows)
        return DepthwiseTiling(
            lanes, vectors, channel_blocks, -(-g.out[0] // row_blocks), row_blocks
        )
