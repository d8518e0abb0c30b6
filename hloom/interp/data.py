"""Moving data: slices, pads, reshapes, concatenations, sizes, tuples.

All of it works on the run-time sizes of its operands; sizes written in the program are bounds
where a dimension is dynamic. Results may be views of operands: nobody writes into a value.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.context import EvalContext
from hloom.interp.registry import MEANING
from hloom.interp.values import EvalValue, check_scratch, fits, from_literal
from hloom.ir.instruction import Instruction
from hloom.types.shape import Shape

Array = np.ndarray[Any, Any]


@MEANING.of("constant")
def constant(i: Instruction, context: EvalContext) -> EvalValue:
    return from_literal(i.attrs.literal)


@MEANING.of("iota")
def iota(i: Instruction, context: EvalContext) -> Array:
    dims, dtype, dimension = i.shape.dims, i.shape.dtype, i.attrs.iota_dimension
    if 0 in dims:
        return np.zeros(dims, dtype.numpy)
    # The numbers, and the same as floats or in the type: as much again as a line of s64 each.
    check_scratch(24 * dims[dimension], context.options.memory_limit_bytes, i)
    count = np.arange(dims[dimension], dtype=np.int64)
    if dtype.is_floating and dtype.bits < 32:
        count = count.astype(np.float32)
    line = count.astype(dtype.numpy)
    around = [1] * len(dims)
    around[dimension] = dims[dimension]
    return np.broadcast_to(line.reshape(around), dims)


@MEANING.of("copy")
def copy(i: Instruction, context: EvalContext, x: EvalValue) -> EvalValue:
    return x


@MEANING.of("broadcast")
def broadcast(i: Instruction, context: EvalContext, x: Array) -> Array:
    dimensions, sizes = i.attrs.dimensions, list(i.shape.dims)
    around = [1] * len(sizes)
    for k, dimension in enumerate(dimensions):
        sizes[dimension] = around[dimension] = x.shape[k]
    # The attribute may name result dimensions in any order.
    order = sorted(range(len(dimensions)), key=lambda k: dimensions[k])
    return np.broadcast_to(np.transpose(x, order).reshape(around), sizes)


@MEANING.of("transpose")
def transpose(i: Instruction, context: EvalContext, x: Array) -> Array:
    return np.transpose(x, i.attrs.dimensions)


@MEANING.of("reverse")
def reverse(i: Instruction, context: EvalContext, x: Array) -> Array:
    return np.flip(x, i.attrs.dimensions) if i.attrs.dimensions else x


@MEANING.of("shuffle")
def shuffle(i: Instruction, context: EvalContext, x: Array) -> Array:
    a = i.attrs
    if any(i.shape.dynamic[d] for d in a.dimensions if i.shape.dynamic):
        raise EvalError("what rotating a dimension of run-time size gives is not known")
    shifts = [-(s % max(1, x.shape[d])) for d, s in zip(a.dimensions, a.shifts, strict=True)]
    return np.roll(x, shifts, a.dimensions)


@MEANING.of("concatenate")
def concatenate(i: Instruction, context: EvalContext, *inputs: Array) -> Array:
    return np.concatenate(inputs, axis=i.attrs.dimensions[0])


@MEANING.of("slice")
def slice_(i: Instruction, context: EvalContext, x: Array) -> Array:
    x = _reaching(x, tuple(d.limit for d in i.attrs.slice.dimensions), i.shape)
    return x[tuple(slice(d.start, d.limit, d.stride) for d in i.attrs.slice.dimensions)]


def clamped_starts(starts: tuple[Array, ...], size: tuple[int, ...], full: tuple[int, ...]) -> Any:
    """Where a block of `size` begins inside `full`: each start moved so that the block fits.

    `starts` holds one scalar per dimension, or (the older form) one vector of all of them.
    """
    if len(starts) == 1 and np.ndim(starts[0]) == 1:
        starts = tuple(starts[0])
    return tuple(
        min(max(int(start), 0), max(whole - part, 0))
        for start, part, whole in zip(starts, size, full, strict=True)
    )


@MEANING.of("dynamic-slice")
def dynamic_slice(i: Instruction, context: EvalContext, x: Array, *starts: Array) -> Array:
    size = i.attrs.dynamic_slice_sizes
    x = _reaching(x, i.operands[0].shape.dims, i.shape)
    at = clamped_starts(starts, size, x.shape)
    return x[tuple(slice(s, s + n) for s, n in zip(at, size))]


@MEANING.of("dynamic-update-slice")
def dynamic_update_slice(
    i: Instruction, context: EvalContext, x: Array, update: Array, *starts: Array
) -> Array:
    sizes = x.shape
    if not i.operands[0].shape.is_unbounded:
        x = _filled(x, i.operands[0].shape.dims)
    at = clamped_starts(starts, update.shape, x.shape)
    out = x.copy()
    out[tuple(slice(s, s + n) for s, n in zip(at, update.shape))] = update
    return out if sizes == out.shape else out[tuple(slice(0, n) for n in sizes)]


@MEANING.of("pad")
def pad(i: Instruction, context: EvalContext, x: Array, value: Array) -> Array:
    dimensions = i.attrs.padding.dimensions
    sizes = [max(d.output_size(n), 0) for d, n in zip(dimensions, x.shape)]
    if not fits(tuple(sizes), i.shape):
        raise EvalError(f"padding gives sizes {sizes}, not {i.shape.text_without_layout}")
    out = np.empty(sizes, x.dtype)
    out[...] = value
    target: list[slice] = []
    source: list[slice] = []
    for d, n, size in zip(dimensions, x.shape, sizes):
        # Element k goes to low + k * step; those outside of [0, size) are cropped.
        step, low = d.interior_padding + 1, d.edge_padding_low
        first = max(0, -(low // step)) if low < 0 else 0
        last = min(n, (size - 1 - low) // step + 1) if size else 0
        if last <= first:
            return out
        source.append(slice(first, last))
        target.append(slice(low + first * step, low + (last - 1) * step + 1, step))
    out[tuple(target)] = x[tuple(source)]
    return out


# -- reshape ------------------------------------------------------------------------------------


@MEANING.of("reshape")
def reshape(i: Instruction, context: EvalContext, x: Array) -> Array:
    dims, before = i.shape.dims, i.operands[0].shape
    if not i.shape.dynamic:
        # What a static result has and a smaller operand has not is undefined: zeros here.
        return (x if x.size == prod(dims) else _filled(x, before.dims)).reshape(dims)
    if x.shape == before.dims:
        return x.reshape(dims)
    return x.reshape(reshaped_sizes(x.shape, before, i.shape))


def reshaped_sizes(sizes: tuple[int, ...], before: Shape, after: Shape) -> tuple[int, ...]:
    """Run-time sizes after a reshape between shapes with dynamic dimensions.

    The dimensions fall into groups of equal element count, such as [<=6,4] -> [2,<=3,4] into
    6 = 2 * 3 and 4 = 4. In each group the static dimensions keep their sizes, and the major
    dynamic one takes what remains.
    """
    out = list(after.dims)
    if sum(after.dynamic) == 1:
        k = after.dynamic.index(True)
        rest = prod(n for j, n in enumerate(out) if j != k)
        out[k] = prod(sizes) // rest if rest else 0
        return _checked_sizes(out, sizes, before, after)
    for left, right in _groups(before.dims, after.dims):
        count = prod(sizes[k] for k in left)
        if count == prod(after.dims[k] for k in right):
            continue
        moving = [k for k in right if after.is_dynamic_dim(k)]
        if not moving:
            break
        changed = [sizes[k] for k in left if before.is_dynamic_dim(k)]
        if len(changed) == len(moving) and len(left) == len(right):
            parts = changed
        else:
            parts = [out[k] for k in moving]
            rest = prod(out[k] for k in right if k not in moving) * prod(parts[1:])
            parts[0] = count // rest if rest else 0
        for k, part in zip(moving, parts):
            out[k] = part
    return _checked_sizes(out, sizes, before, after)


def _checked_sizes(
    out: list[int], sizes: tuple[int, ...], before: Shape, after: Shape
) -> tuple[int, ...]:
    if prod(out) != prod(sizes):
        raise EvalError(
            f"cannot reshape run-time sizes {list(sizes)} of {before} to {after}",
            hint="the sizes do not follow from the shapes; use dynamic-reshape",
        )
    return tuple(out)


def _groups(
    before: tuple[int, ...], after: tuple[int, ...]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Runs of dimensions of both sides with equal products, as short as they can be."""
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    j = k = 0
    while j < len(before) or k < len(after):
        left: list[int] = []
        right: list[int] = []
        a = b = 1
        while not (left or right) or a != b:
            if (a <= b and j < len(before)) or k >= len(after):
                if j >= len(before):
                    break
                left.append(j)
                a *= before[j]
                j += 1
            else:
                right.append(k)
                b *= after[k]
                k += 1
        # Dimensions of size 1 belong to the group they stand behind.
        while j < len(before) and before[j] == 1:
            left.append(j)
            j += 1
        while k < len(after) and after[k] == 1:
            right.append(k)
            k += 1
        groups.append((tuple(left), tuple(right)))
    return groups


def _reaching(x: Array, needed: tuple[int, ...], result: Shape) -> Array:
    """x, with what lies beyond its run-time sizes where a static result reads that."""
    sizes = tuple(
        n if result.is_dynamic_dim(k) else max(n, m)
        for k, (n, m) in enumerate(zip(x.shape, needed))
    )
    return _filled(x, sizes)


def _filled(x: Array, sizes: tuple[int, ...]) -> Array:
    """x grown to larger sizes: by the elements that `set-dimension-size` hid, where they are
    still in memory (compiled programs see them too), else by zeros."""
    if x.shape == sizes:
        return x
    whole = _behind(x)
    if whole is not None and all(n <= m for n, m in zip(sizes, whole.shape)):
        return whole[tuple(slice(0, n) for n in sizes)]
    out = np.zeros(sizes, x.dtype)
    out[tuple(slice(0, n) for n in x.shape)] = x
    return out


def _behind(x: Array) -> Array | None:
    """The larger array whose first elements, in every dimension, x shows; None when none."""
    whole = x.base
    if not isinstance(whole, np.ndarray) or whole.dtype != x.dtype or whole.strides != x.strides:
        return None
    start = x.__array_interface__["data"][0]
    return whole if whole.__array_interface__["data"][0] == start else None


@MEANING.of("dynamic-reshape")
def dynamic_reshape(i: Instruction, context: EvalContext, x: Array, *sizes: Array) -> Array:
    run_time_sizes = tuple(int(n.item()) for n in sizes)
    for k, (n, bound) in enumerate(zip(run_time_sizes, i.shape.dims)):
        if not 0 <= n <= bound and bound >= 0:
            raise EvalError(f"size {n} of dimension {k} is outside of {i.shape}")
    if prod(run_time_sizes) != x.size:
        raise EvalError(
            f"cannot reshape {x.size} elements to run-time sizes {list(run_time_sizes)}"
        )
    return x.reshape(run_time_sizes)


# -- sizes --------------------------------------------------------------------------------------


@MEANING.of("get-dimension-size")
def get_dimension_size(i: Instruction, context: EvalContext, x: Array) -> Array:
    return np.array(x.shape[i.attrs.dimensions[0]], i.shape.dtype.numpy)


@MEANING.of("set-dimension-size")
def set_dimension_size(i: Instruction, context: EvalContext, x: Array, size: Array) -> Array:
    """Shrinking hides elements; growing again up to the bound shows them again."""
    dimension, run_time_size = i.attrs.dimensions[0], int(size)
    bound = i.shape.dims[dimension]
    if run_time_size < 0 or 0 <= bound < run_time_size:
        raise EvalError(
            f"dimension {dimension} of {i.shape} cannot have the run-time size {run_time_size}"
        )
    if run_time_size <= x.shape[dimension]:
        # An array of its own, so that a later growth finds what is hidden now.
        owner = x if x.base is None or _behind(x) is not None else x.copy()
        return owner[(slice(None),) * dimension + (slice(0, run_time_size),)]
    return _filled(x, (*x.shape[:dimension], run_time_size, *x.shape[dimension + 1 :]))


# -- tuples -------------------------------------------------------------------------------------


@MEANING.of("tuple")
def tuple_(i: Instruction, context: EvalContext, *inputs: EvalValue) -> EvalValue:
    return inputs


@MEANING.of("get-tuple-element")
def get_tuple_element(i: Instruction, context: EvalContext, x: EvalValue) -> EvalValue:
    return x[i.attrs.index]
