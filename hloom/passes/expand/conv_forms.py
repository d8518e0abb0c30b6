"""The two forms of convolution that are left after canonicalization, and the words for them.

Forward form, for any number of spatial dimensions: `b01f_01io->b01f`, feature groups allowed, no
batch groups, no window reversal. Base dilation is left only where the stride or the window
dilation is not 1 as well. Weight-gradient form: `f01b_i01o->01bf` with convolution_kind=wgrad:
lhs `[n, spatial, ci]`, rhs `[n, window, co]` as large as an activation, result
`[spatial, ci / groups, co]`, so that both operands stay as they lie in memory; batch groups are
allowed there (result feature o uses the lhs channels of its group), feature groups are not.

In both, operands have one type, the result that type or one of `product_types.KEPT`.
"""

from __future__ import annotations

from functools import cache
from math import prod

from hloom.ir.instruction import Instruction
from hloom.ir.values.conv_dims import ConvolutionDimensions
from hloom.ir.values.window import WindowDimension
from hloom.passes.expand.product_types import product_types

WGRAD = "wgrad"

MOST_TERMS = 100
"""So many products for each element of the result may be of no use in phases that are features."""
LEAST_FEATURES = 32
"""Fewer features of a phase leave lanes empty."""
MOST_CONVOLUTIONS = 16
"""More convolutions in place of one take long to compile."""


@cache
def forward_labels(rank: int) -> ConvolutionDimensions:
    """`b01f_01io->b01f` for so many spatial dimensions."""
    inner = tuple(range(1, rank + 1))
    return ConvolutionDimensions(
        0, rank + 1, inner, rank, rank + 1, tuple(range(rank)), 0, rank + 1, inner
    )


@cache
def gradient_labels(rank: int) -> ConvolutionDimensions:
    """`f01b_i01o->01bf` for so many spatial dimensions."""
    inner = tuple(range(1, rank + 1))
    return ConvolutionDimensions(
        rank + 1, 0, inner, 0, rank + 1, inner, rank, rank + 1, tuple(range(rank))
    )


def is_weight_gradient(conv: Instruction) -> bool:
    """Whether the window is an activation: larger than the result and than 4 elements in all."""
    a, dims = conv.attrs, conv.shape.dims
    window = prod(d.size for d in a.window.dimensions)
    positions = prod(dims[d] for d in a.dim_labels.output_spatial_dimensions)
    plain = all(d.base_dilation == 1 and not d.window_reversal for d in a.window.dimensions)
    return plain and a.feature_group_count == 1 and window > 4 and window > positions


def is_point_like(conv: Instruction) -> bool:
    """Whether it is a product of matrices: the window is one element, or all of the base."""
    a = conv.attrs
    if a.feature_group_count != 1 or a.batch_group_count != 1:
        return False
    x, base = conv.operands[0].shape.dims, a.dim_labels.input_spatial_dimensions
    rows = a.window.dimensions
    if any(d.base_dilation != 1 for d in rows):
        return False
    if all(d.size == 1 and d.padding_low <= 0 and d.padding_high <= 0 for d in rows):
        return True
    return all(
        d.size == x[n] and d.padding_low == d.padding_high == 0 and d.window_dilation == 1
        for d, n in zip(rows, base, strict=True)
    )


def is_of_points(conv: Instruction) -> bool:
    """Whether images are of one element, of which each element of the result sees one place of the
    window, or none."""
    a = conv.attrs
    if a.feature_group_count != 1 or a.batch_group_count != 1 or is_point_like(conv):
        return False
    x, base = conv.operands[0].shape.dims, a.dim_labels.input_spatial_dimensions
    rows = a.window.dimensions
    return all(x[n] == 1 for n in base) and all(d.stride == d.window_dilation == 1 for d in rows)


def is_phased(d: WindowDimension) -> bool:
    """Whether base dilation of a dimension can go by splitting the result."""
    return d.base_dilation > 1 and d.stride == 1 and d.window_dilation == 1


def splits_into_phases(conv: Instruction, most: int) -> bool:
    """Whether base dilation goes by splitting the result, into at most `most` parts or into as many
    features."""
    steps = [d.base_dilation for d in conv.attrs.window.dimensions if is_phased(d)]
    return bool(steps) and (prod(steps) <= most or has_equal_phases(conv))


def has_equal_phases(conv: Instruction) -> bool:
    """Whether all phases of the result meet equally many elements of the kernel, so that one
    convolution computes them as features of their own."""
    a = conv.attrs
    if a.feature_group_count * a.batch_group_count != 1:
        return False
    rows = [d for d in a.window.dimensions if is_phased(d)]
    return bool(rows) and all(d.size % d.base_dilation == 0 for d in rows)


def computes_far_more(conv: Instruction) -> bool:
    """Whether phases as features compute so many places at the edges that are not of the result
    that a convolution for each, whose results are then brought together, is faster."""
    a = conv.attrs
    sizes = [conv.shape.dims[d] for d in a.dim_labels.output_spatial_dimensions]
    features = conv.shape.dims[a.dim_labels.output_feature_dimension]
    channels = conv.operands[1].shape.dims[a.dim_labels.kernel_input_feature_dimension]
    computed, terms, phases = 1, channels, 1
    for d, n in zip(a.window.dimensions, sizes, strict=True):
        step = d.base_dilation if is_phased(d) else 1
        computed *= step * -(-(n + -(d.padding_low + 1) % step) // step)
        terms *= d.size // step
        phases *= step
    if features < LEAST_FEATURES or phases > MOST_CONVOLUTIONS:
        return False
    return (computed / prod(sizes) - 1) * terms > MOST_TERMS


def is_canonical(conv: Instruction, most_phases: int) -> bool:
    """Whether a convolution has one of the two forms described above."""
    a = conv.attrs
    x, y = (o.shape.dtype for o in conv.operands)
    if x is not y or product_types(x, y, conv.shape.dtype) != (x, conv.shape.dtype):
        return False
    if any(d.window_reversal for d in a.window.dimensions):
        return False
    rank = a.window.rank
    if is_point_like(conv) or is_of_points(conv) or splits_into_phases(conv, most_phases):
        return False
    if a.convolution_kind == WGRAD and a.dim_labels == gradient_labels(rank):
        return a.feature_group_count == 1
    if is_weight_gradient(conv):
        return False
    return a.dim_labels == forward_labels(rank) and a.batch_group_count == 1
