"""Convolutions seen as products of matrices: rows are places of the result, K is the window.

The weight gradient is the product the other way round: rows are the places of the window with
their input features, K are the images and places of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from hloom.analysis.panels import panels_behind
from hloom.analysis.shared_window import shared_parts
from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.elements import Elements, Index
from hloom.codegen.elements_data import both, choose
from hloom.codegen.elements_window import unpadded, window_position
from hloom.codegen.packing import WIDE, Packing, exact_source, packing_of
from hloom.codegen.product import Inside, Product, Read, Touches, fastest
from hloom.codegen.row_products import accumulator_type
from hloom.codegen.window_rows import window_rows
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.ir.values.window import WindowDimension
from hloom.kernel.kernel import Value
from hloom.types.dtype import DType

# Groups with fewer features than this are no products worth the packing.
LEAST_FEATURES = 4
LEAST_OUTPUTS = 8
# A filter: one feature that is read and at most so many that are made, or few of both and, in rows
# that are not long, few pairs of them; at most such strides; at least so many places in a row for
# each feature that is read. Of the product's time: 1 to 6 features of 28 x 28 0.14, 1 to 8 of rows
# of 8 0.7; 2 to 4 of 100 x 100 0.7, 4 to 2 0.86, 4 to 4 1.25 (rows of 20000 0.72 to 0.9), 2 to 8
# 1.4, 8 to 1 2.0.
FILTER_OUTPUTS = 8
FILTER_FEATURES = 4
FILTER_PAIRS = 9
FILTER_LONG_ROW = 1024
FILTER_STRIDE = 4
FILTER_ROW = 8
# Fewer input features than this are taken together with their neighbours in a row.
FEW_ROWS = 8
# Where less of what windows cover is the image, tiles of rows are asked whether they see any of it.
MOST_INSIDE = 0.95


def convolution_product(
    i: Instruction, leaves: set[Instruction], device: Device | None = None
) -> Product | None:
    """A convolution as a product; None for depthwise ones and what else is none. Where the device
    is given, its instructions for narrow types are used."""
    if i.attrs.convolution_kind == "wgrad" or i.attrs.batch_group_count != 1:
        return _weight_gradient(i, leaves)
    return _forward(i, leaves, device)


def _forward(i: Instruction, leaves: set[Instruction], device: Device | None) -> Product | None:
    labels = i.attrs.dim_labels
    lhs, rhs = i.operands
    dims = i.attrs.window.dimensions
    groups = i.attrs.feature_group_count
    features = rhs.shape.dims[labels.kernel_input_feature_dimension]
    outputs = rhs.shape.dims[labels.kernel_output_feature_dimension] // groups
    if groups > 1 and (features < LEAST_FEATURES or outputs < LEAST_OUTPUTS):
        return None
    out = [i.shape.dims[d] for d in labels.output_spatial_dimensions]
    images = i.shape.dims[labels.output_batch_dimension]
    sizes = [lhs.shape.dims[d] for d in labels.input_spatial_dimensions]
    of = accumulator_type(i.shape.dtype)
    if _is_filter(i):
        return _filter(i, of)
    packing = _packing(i, of, leaves, device)
    if packing.group > 1:
        lhs, rhs = exact_source(lhs, leaves), exact_source(rhs, leaves)

    def index(e: Elements, g: Affine, m: Affine, n: Affine) -> Index:
        image, *place = e.indices.digits(m, [images, *out])
        at = [ZERO] * i.shape.rank
        at[labels.output_batch_dimension] = image
        at[labels.output_feature_dimension] = g.times(outputs).plus(n)
        for d, x in zip(labels.output_spatial_dimensions, place):
            at[d] = x
        return tuple(at)

    p = Product(
        i,
        of,
        groups,
        images * prod(out),
        outputs,
        (*[w.size for w in dims], features),
        _image_reader(i, lhs, packing.a_read or of),
        _kernel_reader(i, rhs, packing.b or of, outputs, len(dims)),
        index,
        "k",
        "k" if fastest(rhs, leaves) == labels.kernel_input_feature_dimension else "n",
        a_merged=2 if _joins_features(i, leaves) else 1,
        packing=packing,
        touches=_touches(dims, images, sizes, out),
        inside=_inside(i, lhs, packing.a_read or of),
    )
    if groups == 1 and packing.group == 1 and device is not None:
        p = replace(p, window=window_rows(i, leaves, of, device))
    is_plain = groups == 1 and not any(w.window_reversal for w in dims)
    return _with_panels(p, rhs, leaves) if is_plain else p


def _touches(
    dims: Sequence[WindowDimension], images: int, sizes: Sequence[int], out: Sequence[int]
) -> Touches | None:
    """Whether a row sees any of the image at some places of the window; None where most do."""
    if share_inside(dims, sizes, out) >= MOST_INSIDE:
        return None

    def touches(e: Elements, m: Affine, k: Sequence[Affine]) -> Value | None:
        _, *place = e.indices.digits(m, [images, *out])
        return window_position(e, tuple(place), k, dims, sizes)[1]

    return touches


def _image_reader(i: Instruction, lhs: Instruction, of: DType, asks: bool = True) -> Read:
    """Reads elements of the image `lhs` of a convolution, as a type; with zeros around it, unless
    nobody `asks` for them."""
    labels, dims = i.attrs.dim_labels, i.attrs.window.dimensions
    out = [i.shape.dims[d] for d in labels.output_spatial_dimensions]
    images = i.shape.dims[labels.output_batch_dimension]
    sizes = [lhs.shape.dims[d] for d in labels.input_spatial_dimensions]
    features = i.operands[1].shape.dims[labels.kernel_input_feature_dimension]

    def read(e: Elements, g: Affine, m: Affine, k: Sequence[Affine]) -> Value:
        image, *place = e.indices.digits(m, [images, *out])
        if asks:
            where, inside = window_position(e, tuple(place), k[:-1], dims, sizes)
        else:
            where, inside = [unpadded(x, y, w) for x, y, w in zip(place, k, dims)], None
        at = [ZERO] * lhs.shape.rank
        at[labels.input_batch_dimension] = image
        at[labels.input_feature_dimension] = g.times(features).plus(k[-1])
        for d, x in zip(labels.input_spatial_dimensions, where):
            at[d] = x
        return _padded(e, lhs, tuple(at), inside, of)

    return read


def _inside(i: Instruction, lhs: Instruction, of: DType) -> Inside | None:
    """Which rows see no padding, and how they are read; None where what stands between elements of
    the image is padding, too."""
    labels, dims = i.attrs.dim_labels, i.attrs.window.dimensions
    if any(w.base_dilation != 1 for w in dims):
        return None
    out = [i.shape.dims[d] for d in labels.output_spatial_dimensions]
    images = i.shape.dims[labels.output_batch_dimension]
    sizes = [lhs.shape.dims[d] for d in labels.input_spatial_dimensions]

    def holds(e: Elements, m: Affine, k: Sequence[Affine]) -> Value | None:
        _, *place = e.indices.digits(m, [images, *out])
        all_of_it = None
        for low in (True, False):
            known = [*k[: len(dims)]]
            known += [constant(0 if low else w.size - 1) for w in dims[len(known) :]]
            inside = window_position(e, tuple(place), known, dims, sizes)[1]
            all_of_it = both(e, all_of_it, inside)
        return all_of_it

    return Inside(holds, _image_reader(i, lhs, of, asks=False))


def share_inside(
    dims: Sequence[WindowDimension], sizes: Sequence[int], out: Sequence[int]
) -> float:
    """Which share of all that windows cover is the image, and not padding."""
    share = 1.0
    for w, size, count in zip(dims, sizes, out):
        end, inside = (size - 1) * w.base_dilation + 1, 0
        for k in range(w.size):
            first = w.padding_low - k * w.window_dilation  # times the stride, of the first inside
            low, high = -(-first // w.stride), -(-(first + end) // w.stride)
            inside += max(0, min(high, count) - max(low, 0))
        share *= inside / max(1, w.size * count)
    return share


def _packing(i: Instruction, of: DType, leaves: set[Instruction], device: Device | None) -> Packing:
    """How a convolution's operands are packed: groups and tiles along K stay within a place of the
    window."""
    labels, (lhs, rhs) = i.attrs.dim_labels, i.operands
    features = rhs.shape.dims[labels.kernel_input_feature_dimension]
    outputs = rhs.shape.dims[labels.kernel_output_feature_dimension]
    columns = outputs // i.attrs.feature_group_count
    depth = rhs.shape.size // max(outputs, 1)
    rows = i.shape.size // max(outputs, 1)
    packing = packing_of(lhs, rhs, of, leaves, device, (rows, columns, depth))
    if depth < packing.step:  # half empty, and packed in short pieces
        packing = packing_of(lhs, rhs, of, leaves, device)
    return WIDE if features % packing.group else packing


def _with_panels(p: Product, rhs: Instruction, leaves: set[Instruction]) -> Product:
    """A convolution of one group, with what its filters are as a matrix, and whether they lie in
    panels."""
    labels = p.anchor.attrs.dim_labels
    dims = (
        *labels.kernel_spatial_dimensions,
        labels.kernel_input_feature_dimension,
        labels.kernel_output_feature_dimension,
    )
    panels = panels_behind(rhs, leaves, dims, p.packing.group, p.b_type)
    lanes = "n" if panels else p.b_lanes
    return replace(p, b_array=rhs, b_dims=dims, b_panels=panels, b_lanes=lanes)


def _is_filter(i: Instruction) -> bool:
    """Whether few features are made of few others, in long rows: a signal or a picture that is
    filtered."""
    labels, dims = i.attrs.dim_labels, i.attrs.window.dimensions
    features = i.operands[1].shape.dims[labels.kernel_input_feature_dimension]
    outputs = i.shape.dims[labels.output_feature_dimension]
    if not dims or i.attrs.feature_group_count != 1:
        return False
    last, row = dims[-1], i.shape.dims[labels.output_spatial_dimensions[-1]]
    if features == 1:
        suits = outputs <= FILTER_OUTPUTS
    else:
        is_few = features * outputs <= FILTER_PAIRS or row >= FILTER_LONG_ROW
        suits = max(features, outputs) <= FILTER_FEATURES and is_few
    if not suits or row < FILTER_ROW * features:
        return False
    return last.base_dilation == 1 and last.stride <= FILTER_STRIDE


def _filter(i: Instruction, of: DType) -> Product:
    """A filter: rows are features, columns the places along a row, and there is one product for
    each row of each image."""
    labels, dims = i.attrs.dim_labels, i.attrs.window.dimensions
    lhs, rhs = i.operands
    images = i.shape.dims[labels.output_batch_dimension]
    *outer, row = [i.shape.dims[d] for d in labels.output_spatial_dimensions]
    sizes = [lhs.shape.dims[d] for d in labels.input_spatial_dimensions]
    features = rhs.shape.dims[labels.kernel_input_feature_dimension]
    outputs = i.shape.dims[labels.output_feature_dimension]

    def read_b(e: Elements, g: Affine, n: Affine, k: Sequence[Affine]) -> Value:
        image, *place = e.indices.digits(g, [images, *outer])
        where, inside = window_position(e, (*place, n), k[:-1], dims, sizes)
        at = [ZERO] * lhs.shape.rank
        at[labels.input_batch_dimension] = image
        at[labels.input_feature_dimension] = k[-1]
        for d, x in zip(labels.input_spatial_dimensions, where):
            at[d] = x
        return _padded(e, lhs, tuple(at), inside, of)

    def index(e: Elements, g: Affine, m: Affine, n: Affine) -> Index:
        image, *place = e.indices.digits(g, [images, *outer])
        at = [ZERO] * i.shape.rank
        at[labels.output_batch_dimension] = image
        at[labels.output_feature_dimension] = m
        for d, x in zip(labels.output_spatial_dimensions, (*place, n)):
            at[d] = x
        return tuple(at)

    reader = _kernel_reader(i, rhs, of, outputs, len(dims))

    def read_a(e: Elements, g: Affine, m: Affine, k: Sequence[Affine]) -> Value:
        return reader(e, ZERO, m, k)

    return Product(
        i,
        of,
        images * prod(outer),
        outputs,
        row,
        (*[w.size for w in dims], features),
        read_a,
        read_b,
        index,
        "k",
        "n",
    )


def _padded(e: Elements, x: Instruction, at: Index, inside: Value | None, of: DType) -> Value:
    """An element in the type of sums; zero where it is not inside."""
    value = e.builder.convert(e.value(x, at, inside), of)
    if inside is None:
        return value
    return choose(e, inside, value, e.builder.constant(of, 0))


def _kernel_reader(
    i: Instruction, rhs: Instruction, of: DType, outputs: int, feature: int, parts: int = 1
) -> Read:
    """Reads elements of the kernel `rhs`, as a type; digit `feature` of K is its feature, others
    are places of the window. Each group has so many outputs; parts are outside of groups."""
    labels, dims = i.attrs.dim_labels, i.attrs.window.dimensions
    spatial = labels.kernel_spatial_dimensions
    groups = i.attrs.feature_group_count * i.attrs.batch_group_count

    def read(e: Elements, g: Affine, n: Affine, k: Sequence[Affine]) -> Value:
        at = [ZERO] * rhs.shape.rank
        places = [x for d, x in enumerate(k) if d != feature]
        if parts > 1:
            part, g = e.indices.digits(g, [parts, groups])
            places.insert(0, part)
        at[labels.kernel_input_feature_dimension] = k[feature]
        at[labels.kernel_output_feature_dimension] = g.times(outputs).plus(n)
        for d, x, w in zip(spatial, places, dims):
            at[d] = x.times(-1).plus(w.size - 1) if w.window_reversal else x
        return e.builder.convert(e.value(rhs, tuple(at)), of)

    return read


def _joins_features(i: Instruction, leaves: set[Instruction]) -> bool:
    """Whether a row of the window and its features are contiguous in the input."""
    dims, labels = i.attrs.window.dimensions, i.attrs.dim_labels
    if not dims or i.attrs.feature_group_count != 1:
        return False
    if dims[-1].window_dilation != 1 or dims[-1].base_dilation != 1:
        return False
    return fastest(i.operands[0], leaves) == labels.input_feature_dimension


def _weight_gradient(i: Instruction, leaves: set[Instruction]) -> Product | None:
    """`f01b_i01o->01bf`: `[places * ci, n * k] x [n * k, co]`."""
    labels = i.attrs.dim_labels
    lhs, rhs = i.operands
    groups, parts = i.attrs.batch_group_count, shared_parts(i)
    if i.attrs.feature_group_count != 1:
        return None
    skipped = 1 if parts > 1 else 0
    dims = i.attrs.window.dimensions[skipped:]
    places = [i.shape.dims[d] for d in labels.output_spatial_dimensions[skipped:]]
    sizes = [lhs.shape.dims[d] for d in labels.input_spatial_dimensions[skipped:]]
    # In this form the contracted "feature" of the labels is the batch of images.
    images = lhs.shape.dims[labels.input_feature_dimension]
    rows = features = i.shape.dims[labels.output_batch_dimension]
    columns = i.shape.dims[labels.output_feature_dimension] // groups
    if groups > 1 and (rows < LEAST_FEATURES or columns < LEAST_OUTPUTS):
        return None
    of = accumulator_type(i.shape.dtype)

    def read_a(e: Elements, g: Affine, m: Affine, k: Sequence[Affine]) -> Value:
        *place, row = e.indices.digits(m, [*places, features])
        where, inside = window_position(e, tuple(place), k[1:], dims, sizes)
        part, g = e.indices.digits(g, [parts, groups])
        at = [ZERO] * lhs.shape.rank
        at[labels.input_feature_dimension] = k[0]
        at[labels.input_batch_dimension] = g.times(features).plus(row)
        for d, x in zip(labels.input_spatial_dimensions, (part, *where)[1 - skipped :]):
            at[d] = x
        return _padded(e, lhs, tuple(at), inside, of)

    def index(e: Elements, g: Affine, m: Affine, n: Affine) -> Index:
        *place, row = e.indices.digits(m, [*places, features])
        part, g = e.indices.digits(g, [parts, groups])
        at = [ZERO] * i.shape.rank
        at[labels.output_batch_dimension] = row
        at[labels.output_feature_dimension] = g.times(columns).plus(n)
        for d, x in zip(labels.output_spatial_dimensions, (part, *place)[1 - skipped :]):
            at[d] = x
        return tuple(at)

    a_lanes = "m" if fastest(lhs, leaves) == labels.input_batch_dimension else "k"
    last = labels.kernel_spatial_dimensions[-1] if dims else -1
    outer = places
    if dims and rows < FEW_ROWS and a_lanes == "m" and groups == 1 and dims[-1].stride == 1:
        # Neighbouring places of the window and their few features are contiguous in the input.
        rows, outer = rows * places[-1], places[:-1]
    return Product(
        i,
        of,
        parts * groups,
        rows,
        columns,
        (images, *[w.size for w in dims]),
        read_a,
        _kernel_reader(i, rhs, of, columns, 0, parts),
        index,
        a_lanes,
        "k" if fastest(rhs, leaves) == last else "n",
        row_groups=prod(outer),
    )
