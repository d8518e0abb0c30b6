"""What a convolution of small groups is, and how it is cut into steps."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hloom.codegen.depthwise_shape import (
    MOST_COLUMNS,
    MOST_SCRATCH_SHARE,
    MOST_TAPS,
    SCRATCH_SHARE,
    STEPS_PER_UNIT,
    DepthwiseTiling,
    Geometry,
    is_gradient,
    pair,
)
from hloom.codegen.gemm_tiling import share_bytes
from hloom.codegen.product_convolution import LEAST_FEATURES, LEAST_OUTPUTS
from hloom.codegen.row_products import accumulator_type
from hloom.device.device import Device
from hloom.ir.instruction import Instruction

# Rows of results that share the rows of the input which are packed for them, at least.
LEAST_SHARED_ROWS = 4
# Of the registers, as many hold sums; others hold the inputs that neighbours share.
SUM_REGISTERS_SHARE = 1 / 4
# A group that fills vectors by itself takes at most so many.
MOST_ALONE_VECTORS = 16


@dataclass(frozen=True)
class GroupedShape:
    """A convolution whose groups make fewer features than a vector has lanes.

    `geometry` is that of a convolution with one channel for each group. A vector holds the
    `outputs` of `joined` groups, which read `features` each; it has `lanes`, the last ones empty.
    Outputs that fill most of a vector, or several, are those of one group.
    """

    geometry: Geometry
    features: int
    outputs: int
    joined: int
    lanes: int

    @property
    def groups(self) -> int:
        return self.geometry.channels

    @property
    def filled(self) -> int:
        """The lanes of a vector that are results."""
        return self.joined * self.outputs

    @property
    def blocks(self) -> int:
        """Vectors of all groups."""
        return -(-self.groups // self.joined)

    @property
    def place_size(self) -> int:
        """Elements of a packed place: a vector for each feature of a group."""
        return self.features * self.lanes

    def tiling(self, element: int, device: Device) -> DepthwiseTiling:
        """Steps of one vector of groups and some rows; `width` is what is read of a place."""
        g = self.geometry
        row_bytes = g.columns * self.place_size * element
        room = share_bytes(device, SCRATCH_SHARE) // row_bytes
        rows = min(max(1, (room - g.rows(1)) // g.stride[0] + 1), g.out[0])
        wished_blocks = -(-STEPS_PER_UNIT * device.compute.units // (self.blocks * g.images))
        rows = max(min(rows, -(-g.out[0] // wished_blocks)), min(LEAST_SHARED_ROWS, rows))
        row_blocks = -(-g.out[0] // rows)
        rows = -(-g.out[0] // row_blocks)
        return DepthwiseTiling(self.joined * self.features, 1, self.blocks, rows, row_blocks)

    def neighbours(self, device: Device) -> int:
        """How many results of a row are computed together; all of a short row, or parts of it that
        are about as long as each other."""
        most = max(1, int(device.compute.vector_registers * SUM_REGISTERS_SHARE))
        places = self.geometry.out[1]
        return -(-places // -(-places // most))


def grouped_shape(i: Instruction, device: Device) -> GroupedShape | None:
    """What kind of convolution, or gradient of its weights, it is; None if it is none of small
    groups that is handled here."""
    labels, a = i.attrs.dim_labels, i.attrs
    gradient, dims = is_gradient(i), a.window.dimensions
    groups = a.batch_group_count if gradient else a.feature_group_count
    lhs, rhs = i.operands
    if groups == 1 or not 1 <= len(dims) <= 2 or i.shape.dtype.is_complex:
        return None
    if any(w.base_dilation != 1 or w.window_reversal for w in dims):
        return None
    if gradient and (a.feature_group_count != 1 or any(w.stride != 1 for w in dims)):
        return None
    of = accumulator_type(i.shape.dtype)
    lanes = max(device.compute.vector_bytes // max(of.size_bytes, 1), 1)
    # In the form of a gradient the "batch" of the labels is features, and their "feature" images.
    own = labels.input_feature_dimension if not gradient else labels.input_batch_dimension
    features = lhs.shape.dims[own] // groups
    outputs = rhs.shape.dims[labels.kernel_output_feature_dimension] // groups
    size = tuple([lhs.shape.dims[d] for d in labels.input_spatial_dimensions])
    places = tuple([i.shape.dims[d] for d in labels.output_spatial_dimensions])
    taps = tuple([rhs.shape.dims[d] for d in labels.kernel_spatial_dimensions])
    other = labels.input_batch_dimension if not gradient else labels.input_feature_dimension
    images = lhs.shape.dims[other]
    if 0 in (*size, *places, *taps, images, features, outputs):
        return None
    if 2 * outputs > lanes:
        is_product = features >= LEAST_FEATURES and outputs >= LEAST_OUTPUTS
        is_fraction = outputs.bit_count() == 1  # of the lanes of a vector, or whole vectors
        if is_product or is_fraction or outputs > MOST_ALONE_VECTORS * lanes:
            return None
        lanes *= -(-outputs // lanes)
    stride = pair(tuple([w.stride for w in dims]), 1)
    dilation = pair(tuple([w.window_dilation for w in dims]), 1)
    if gradient:
        if prod(places) > MOST_TAPS:
            return None
        places, taps, stride, dilation = taps, places, dilation, stride
    geometry = Geometry(
        images,
        groups,
        pair(size, 1),
        pair(places, 1),
        pair(taps, 1),
        stride,
        dilation,
        pair(tuple([w.padding_low for w in dims]), 0),
    )
    shape = GroupedShape(geometry, features, outputs, min(lanes // outputs, groups), lanes)
    least_bytes = geometry.rows(1) * geometry.columns * shape.place_size * max(of.size_bytes, 1)
    fits = least_bytes <= share_bytes(device, MOST_SCRATCH_SHARE)
    return shape if fits and geometry.columns <= MOST_COLUMNS else None
