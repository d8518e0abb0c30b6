"""Convolution: dimension numbers, groups, window, and the output they give."""

from hloom.ir.infer.compare import expect_array, flags, higher_precision
from hloom.ir.infer.window import windowed_dims
from hloom.ir.op import ShapeError
from hloom.ir.values.conv_dims import ConvolutionDimensions
from hloom.ir.values.window import Window
from hloom.types.shape import UNBOUNDED, Shape, shape


def convolution(
    lhs: Shape,
    rhs: Shape,
    window: Window,
    dims: ConvolutionDimensions,
    feature_groups: int,
    batch_groups: int,
) -> Shape:
    expect_array(lhs, "the lhs of a convolution")
    expect_array(rhs, "the rhs of a convolution")
    _check_dimension_numbers(lhs, rhs, window, dims)
    _check_groups(lhs, rhs, dims, feature_groups, batch_groups)
    for d, w in zip(dims.kernel_spatial_dimensions, window.dimensions):
        if rhs.dims[d] != w.size:
            raise ShapeError(f"the window {window.text} is not that of the kernel {rhs.bare}")
    out = [0] * lhs.rank
    batch = lhs.dims[dims.input_batch_dimension]
    out[dims.output_batch_dimension] = batch if batch == UNBOUNDED else batch // batch_groups
    out[dims.output_feature_dimension] = rhs.dims[dims.kernel_output_feature_dimension]
    spatial = windowed_dims([lhs.dims[d] for d in dims.input_spatial_dimensions], window)
    for d, size in zip(dims.output_spatial_dimensions, spatial):
        out[d] = size
    dynamic = _dynamic(lhs, rhs, dims)
    return shape(higher_precision(lhs.dtype, rhs.dtype), out, None, dynamic)


def _check_dimension_numbers(
    lhs: Shape, rhs: Shape, window: Window, dims: ConvolutionDimensions
) -> None:
    n = len(dims.input_spatial_dimensions)
    if len(window.dimensions) != n:
        raise ShapeError(
            f"window={window.text} must have {n} dimensions, as dim_labels={dims.text}"
        )
    for x, what in ((lhs, "lhs"), (rhs, "rhs")):
        if x.rank != n + 2:
            raise ShapeError(f"dim_labels={dims.text} needs an {what} of rank {n + 2}: {x.bare}")
    everything = list(range(n + 2))
    named = (
        (dims.input_batch_dimension, dims.input_feature_dimension, dims.input_spatial_dimensions),
        (
            dims.kernel_input_feature_dimension,
            dims.kernel_output_feature_dimension,
            dims.kernel_spatial_dimensions,
        ),
        (
            dims.output_batch_dimension,
            dims.output_feature_dimension,
            dims.output_spatial_dimensions,
        ),
    )
    for first, second, spatial in named:
        if sorted((first, second, *spatial)) != everything:
            raise ShapeError(f"dim_labels={dims.text} must name each dimension once")


def _check_groups(
    lhs: Shape, rhs: Shape, dims: ConvolutionDimensions, feature_groups: int, batch_groups: int
) -> None:
    if feature_groups <= 0 or batch_groups <= 0:
        raise ShapeError(f"group counts must be positive, not {feature_groups} and {batch_groups}")
    if feature_groups > 1 and batch_groups > 1:
        raise ShapeError("a convolution has feature groups or batch groups, not both")
    features = lhs.dims[dims.input_feature_dimension]
    kernel_features = rhs.dims[dims.kernel_input_feature_dimension]
    outputs = rhs.dims[dims.kernel_output_feature_dimension]
    batch = lhs.dims[dims.input_batch_dimension]
    if UNBOUNDED not in (features, kernel_features):
        if features != kernel_features * feature_groups:
            raise ShapeError(
                f"{features} features of {lhs.bare} are not {feature_groups} groups of the "
                f"{kernel_features} of {rhs.bare}"
            )
    if outputs != UNBOUNDED and outputs % (feature_groups * batch_groups):
        raise ShapeError(
            f"{outputs} output features of {rhs.bare} cannot be cut into "
            f"{feature_groups * batch_groups} groups"
        )
    if batch != UNBOUNDED and batch % batch_groups:
        raise ShapeError(f"the batch {batch} of {lhs.bare} cannot be cut into {batch_groups}")


def _dynamic(lhs: Shape, rhs: Shape, dims: ConvolutionDimensions) -> list[bool]:
    left, right = flags(lhs), flags(rhs)
    if right[dims.kernel_output_feature_dimension]:
        raise ShapeError(f"output features of unknown number are not supported: {rhs.bare}")
    out = [False] * lhs.rank
    out[dims.output_batch_dimension] = left[dims.input_batch_dimension]
    spatial = zip(
        dims.output_spatial_dimensions,
        dims.input_spatial_dimensions,
        dims.kernel_spatial_dimensions,
    )
    for o, i, k in spatial:
        out[o] = left[i] or right[k]
    return out
