"""Sort and topk.

A sort is always stable here. Comparators that compare keys (`sort_keys.py`) are left to numpy;
any other runs in a merge sort that works on all rows and all merges of a level at once: each
element finds its place in the other run by binary search, so a sort of n elements costs about
log2(n) squared / 2 calls of the comparator on n elements each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.frame import Frame
from hloom.interp.registry import MEANING
from hloom.interp.sort_keys import ascending, key_values, keys_of
from hloom.interp.values import Value
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction

Array = np.ndarray[Any, Any]


@MEANING.of("sort")
def sort(i: Instruction, frame: Frame, *inputs: Array) -> Value:
    axis = i.attrs.dimensions[0] if i.attrs.dimensions else inputs[0].ndim - 1
    if inputs[0].ndim == 0 or inputs[0].shape[axis] < 2 or inputs[0].size == 0:
        results = inputs
    else:
        order = _order(frame, i.called[0], inputs, axis)
        results = tuple(np.take_along_axis(x, order, axis) for x in inputs)
    return results if i.shape.is_tuple else results[0]


def _order(frame: Frame, comparator: Computation, inputs: tuple[Array, ...], axis: int) -> Array:
    """For each place of the result, where along `axis` its element comes from."""
    keys = keys_of(comparator)
    if keys is not None:
        numbers = []
        for key in keys:
            values = key_values(frame, key, inputs)
            if values is None:
                break
            numbers.append(values)
        else:
            if len(numbers) == 1:
                return np.argsort(numbers[0], axis=axis, kind="stable")
            return np.lexsort(numbers[::-1], axis=axis)
    rows = tuple(np.moveaxis(x, axis, -1) for x in inputs)
    count = rows[0].shape[-1]
    flat = tuple(x.reshape(-1, count) for x in rows)
    order = merge_sorted(frame, comparator, flat)
    return np.moveaxis(order.reshape(rows[0].shape), -1, axis)


# -- any comparator -----------------------------------------------------------------------------


def merge_sorted(frame: Frame, comparator: Computation, rows: tuple[Array, ...]) -> Array:
    """The stable order of each row of [rows, n] arrays under any comparator.

    One that is no strict weak order (NaN in float comparisons) gives some permutation.
    """
    count = rows[0].shape[1]
    order = np.tile(np.arange(count), (rows[0].shape[0], 1))
    width = 1
    while width < count:
        order = _merged(frame, comparator, rows, order, width)
        width *= 2
    return order


def _merged(
    frame: Frame, comparator: Computation, rows: tuple[Array, ...], order: Array, width: int
) -> Array:
    """One level: sorted runs of `width` elements become runs of twice that."""
    count = order.shape[1]
    place = np.arange(count)
    begin = place // (2 * width) * (2 * width)
    second = place - begin >= width
    # Each element looks for its place in the other run [start, start + size).
    start = np.where(second, begin, np.minimum(begin + width, count))
    size = np.minimum(start + width, count) - start
    own = place - begin - np.where(second, width, 0)
    ranks = _ranks(frame, comparator, rows, order, second, start, size)
    target = begin + own + ranks
    merged = np.full(order.shape, -1, order.dtype)
    np.put_along_axis(merged, target, order, axis=1)
    if (merged < 0).any():
        # The comparator contradicts itself; sort by what it said, ties as they were.
        return np.take_along_axis(order, np.argsort(target, axis=1, kind="stable"), axis=1)
    return merged


def _ranks(
    frame: Frame,
    comparator: Computation,
    rows: tuple[Array, ...],
    order: Array,
    second: Array,
    start: Array,
    size: Array,
) -> Array:
    """How many elements of the other run come before each element.

    An element of the second run comes before one of the first only where the comparator says so:
    that makes ties stay as they are.
    """
    low = np.zeros(order.shape, np.int64)
    high = np.broadcast_to(size, order.shape).copy()
    sorted_rows = [np.take_along_axis(x, order, axis=1) for x in rows]
    searching = low < high
    while searching.any():
        # Late rounds have few elements left that are still searching.
        r, c = np.nonzero(searching)
        middle = (low[r, c] + high[r, c]) // 2
        other = start[c] + middle
        from_second = second[c]
        arguments: list[Array] = []
        for x in sorted_rows:
            mine, theirs = x[r, c], x[r, other]
            # comparator(a, b) with a of the second run, b of the first.
            arguments.append(np.where(from_second, mine, theirs))
            arguments.append(np.where(from_second, theirs, mine))
        before = frame.vectorised(comparator, *arguments)
        # Of the other run, `middle` comes before this element:
        passed = np.where(from_second, ~before, before)
        low[r[passed], c[passed]] = middle[passed] + 1
        high[r[~passed], c[~passed]] = middle[~passed]
        searching = low < high
    return low


# -- topk ---------------------------------------------------------------------------------------


@MEANING.of("topk")
def topk(i: Instruction, frame: Frame, x: Array) -> Value:
    """IR-24: the order of the total-order sort; of equal elements the first comes first."""
    k, dtype = i.attrs.k, i.operands[0].shape.dtype
    if x.ndim == 0 or not 0 <= k <= x.shape[-1]:
        raise EvalError(f"cannot take {k} elements of {list(x.shape)}", instruction=f"%{i.name}")
    keys = ascending(x, dtype, i.attrs.largest, total=True)
    assert keys is not None
    order = np.argsort(keys, axis=-1, kind="stable")[..., :k]
    values, indices = i.shape.elements
    return (
        np.take_along_axis(x, order, axis=-1).astype(values.dtype.numpy, copy=False),
        order.astype(indices.dtype.numpy),
    )
