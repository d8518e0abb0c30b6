"""Convolution in all its forms, as one batched product of matrices.

The base is dilated and padded, then viewed through its window without copying; of that view the
matrix product makes rows of window contents ("im2col"), a part of the batch at a time so that
they stay small. Feature groups and batch groups are a batch dimension of the product.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from hloom.base.diagnostics import EvalError
from hloom.interp.context import EvalContext
from hloom.interp.dot_number import Types, summing_type, widened_product
from hloom.interp.elementwise_number import Array
from hloom.interp.registry import MEANING
from hloom.interp.values import check_scratch
from hloom.ir.instruction import Instruction
from hloom.ir.values.window import WindowDimension
from hloom.types.convert import converted
from hloom.types.dtype import DType

_CHUNK = 1 << 24
"""At most about so many elements of window contents are laid out at once."""


@MEANING.of("convolution")
def convolution(i: Instruction, context: EvalContext, lhs: Array, rhs: Array) -> Array:
    """out[n, o, p] = sum over c, k of lhs[n, c, p * stride + k * dilation - pad] * rhs[o, c, k].

    Padding may be negative; zeros between base elements (base dilation) come before padding.
    """
    attrs, labels, types = i.attrs, i.attrs.dim_labels, _types(i)
    features, batches = attrs.feature_group_count, attrs.batch_group_count
    # A numpy type in which windows are cut and products made; padding needs its zero.
    channels = rhs.shape[labels.kernel_input_feature_dimension]
    terms = channels * math.prod(d.size for d in attrs.window.dimensions)
    wide = summing_type(types, terms)
    base = converted(lhs, types[0], wide).transpose(
        labels.input_batch_dimension,
        labels.input_feature_dimension,
        *labels.input_spatial_dimensions,
    )
    kernel = converted(rhs, types[1], wide).transpose(
        labels.kernel_output_feature_dimension,
        labels.kernel_input_feature_dimension,
        *labels.kernel_spatial_dimensions,
    )
    window = attrs.window.dimensions
    _check_groups(i, base, kernel, features, batches)
    _check_window(i, base, context.options.memory_limit_bytes)
    for axis, d in enumerate(window, start=2):
        base = _padded(base, axis, d)
        if d.window_reversal:
            kernel = np.flip(kernel, axis)
    groups = features * batches
    batch = base.shape[0] // batches
    base = base.reshape(batches, batch, features, channels, *base.shape[2:])
    base = base.swapaxes(1, 2).reshape(groups, batch, channels, *base.shape[4:])
    kernel = kernel.reshape(groups, kernel.shape[0] // groups, *kernel.shape[1:])
    result = _grouped(base, kernel, window, wide, types)
    # [groups, batch, spatial..., features] to [batch, groups * features, spatial...]
    result = np.moveaxis(result, (1, 0, -1), (0, 1, 2))
    result = result.reshape(batch, result.shape[1] * result.shape[2], *result.shape[3:])
    order = np.empty(result.ndim, int)
    order[labels.output_batch_dimension] = 0
    order[labels.output_feature_dimension] = 1
    for k, d in enumerate(labels.output_spatial_dimensions, start=2):
        order[d] = k
    return result.transpose(order)


def _types(i: Instruction) -> Types:
    return i.operands[0].shape.dtype, i.operands[1].shape.dtype, i.shape.dtype


def _check_groups(i: Instruction, base: Array, kernel: Array, features: int, batches: int) -> None:
    """Group counts must divide what they group."""
    ok = features >= 1 and batches >= 1
    ok = ok and base.shape[1] == kernel.shape[1] * features and base.shape[0] % batches == 0
    if not ok or kernel.shape[0] % (features * batches):
        raise EvalError(
            f"{features} feature and {batches} batch groups do not fit {list(base.shape[:2])} "
            f"batches and features with {list(kernel.shape[:2])} output and input features",
            instruction=f"%{i.name}",
        )


def _check_window(i: Instruction, base: Array, limit: int) -> None:
    """Room for the padded base, and for as many positions as the window gives: memory was counted
    by the shape, and a module that nobody verified may say another."""
    sizes = list(zip(i.attrs.window.dimensions, base.shape[2:], strict=True))
    places = math.prod(max(0, d.padded_size(n)) for d, n in sizes)
    positions = math.prod(d.output_size(n) for d, n in sizes)
    check_scratch(math.prod(base.shape[:2]) * places * base.itemsize, limit, i)
    check_scratch(base.shape[0] * positions * i.shape.dtype.numpy.itemsize, limit, i)


def _padded(base: Array, axis: int, d: WindowDimension) -> Array:
    """One dimension dilated and then padded; a negative pad takes elements away."""
    size = base.shape[axis]
    length = max(0, d.padded_size(size))
    if (d.base_dilation, d.padding_low, d.padding_high) == (1, 0, 0):
        return base
    padded = np.zeros((*base.shape[:axis], length, *base.shape[axis + 1 :]), base.dtype)
    # Element k lands at low + k * dilation; those from `first` on are inside.
    first = max(0, -(d.padding_low // d.base_dilation))
    start = d.padding_low + first * d.base_dilation
    if start >= length or first >= size:
        return padded
    count = min(size - first, -(-(length - start) // d.base_dilation))
    stop = start + (count - 1) * d.base_dilation + 1
    before = (slice(None),) * axis
    padded[(*before, slice(start, stop, d.base_dilation))] = base[
        (*before, slice(first, first + count))
    ]
    return padded


def _grouped(
    base: Array,
    kernel: Array,
    window: tuple[WindowDimension, ...],
    wide: DType,
    types: Types,
) -> Array:
    """[g, n, c, spatial...] and [g, o, c, window...] to [g, n, positions..., o]."""
    groups, batch, channels = base.shape[:3]
    spatial = tuple(_positions(d, length) for d, length in zip(window, base.shape[3:], strict=True))
    outputs, contents = kernel.shape[1], channels * math.prod(d.size for d in window)
    sums = np.zeros((groups, batch, *spatial, outputs), types[2].numpy)
    if not sums.size or not contents:
        return sums
    right = kernel.reshape(groups, outputs, contents).swapaxes(1, 2)
    view = _windows(base, window)
    for part in _parts(groups, batch, spatial, contents):
        left = view[part].reshape(groups, -1, contents)
        sums[part] = widened_product(left, right, wide, types).reshape(sums[part].shape)
    return sums


def _parts(
    groups: int, batch: int, spatial: tuple[int, ...], contents: int
) -> Iterator[tuple[slice, ...]]:
    """Cuts positions [g, n, spatial...] along n, and within one n along the first spatial
    dimension, so that the window contents of one part stay below `_CHUNK` elements."""
    rows = spatial[0] if spatial else 1
    row = groups * math.prod(spatial[1:]) * contents
    images = max(1, _CHUNK // (row * rows))
    step = rows if images > 1 else max(1, _CHUNK // row)
    for n in range(0, batch, images):
        for start in range(0, rows, step):
            cut = (slice(None), slice(n, n + images), slice(start, start + step))
            yield cut if spatial else cut[:2]


def _positions(d: WindowDimension, length: int) -> int:
    """How many places the window has in a padded dimension."""
    room = length - d.dilated_size()
    return room // d.stride + 1 if room >= 0 else 0


def _windows(base: Array, window: tuple[WindowDimension, ...]) -> Array:
    """A view [g, n, positions..., c, window...] of a base [g, n, c, spatial...]."""
    axes = tuple(range(3, base.ndim))
    if not axes:
        return base
    view = sliding_window_view(base, tuple(d.dilated_size() for d in window), axes)
    steps = [slice(None)] * 3
    steps += [slice(None, None, d.stride) for d in window]
    steps += [slice(None, None, d.window_dilation) for d in window]
    return np.moveaxis(view[tuple(steps)], 2, 2 + len(axes))
