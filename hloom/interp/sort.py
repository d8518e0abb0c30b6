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
    height, count = rows[0].shape
    order = np.tile(np.arange(count), (height, 1))
    width = 1
    while width < count:
        order = _merged(frame, comparator, rows, order, width)
        width *= 2
    return order


def _merged(
    frame: Frame, comparator: Computation, rows: tuple[Array, ...], order: Array, width: int
) -> Array:
    """One level: sorted runs of `width` elements become runs of twice that."""
    height, count = order.shape
    place = np.arange(count)
    run = place // (2 * width)
    second = place - run * 2 * width >= width
    columns, run = place[second], run[second]
    sorted_rows = [np.take_along_axis(x, order, axis=1) for x in rows]
    ranks = _ranks(frame, comparator, sorted_rows, columns, run * 2 * width, width)
    # Where the comparator contradicts itself ranks may fall within a run; they must not.
    ahead = run * (width + 1)
    ranks = np.maximum.accumulate(ranks + ahead, axis=1) - ahead
    target = columns - width + ranks + np.arange(height)[:, None] * count
    merged = np.empty(height * count, order.dtype)
    free = np.ones(height * count, np.bool_)
    free[target.reshape(-1)] = False
    merged[target.reshape(-1)] = order[:, second].reshape(-1)
    # The elements of the first run take the places that are left, in their order.
    merged[free] = order[:, ~second].reshape(-1)
    return merged.reshape(height, count)


def _ranks(
    frame: Frame,
    comparator: Computation,
    rows: list[Array],
    columns: Array,
    begin: Array,
    width: int,
) -> Array:
    """How many elements of the first run, which begins at `begin`, come before each element of
    the second run, which are in `columns`: [rows, columns].

    An element of the second run comes before one of the first only where the comparator says so:
    that makes ties stay as they are. Binary search, in steps of falling powers of two.
    """
    height, count = rows[0].shape
    flat = [x.reshape(-1) for x in rows]
    mine = [x[:, columns] for x in rows]
    base = begin + np.arange(height)[:, None] * count - 1
    ranks = np.zeros(base.shape, np.int64)
    step = width
    while step:
        candidate = np.minimum(ranks + step, width)
        arguments: list[Array] = []
        for x, own in zip(flat, mine):
            arguments += [own, x[base + candidate]]
        ranks = np.where(frame.vectorised(comparator, *arguments), ranks, candidate)
        step //= 2
    return ranks


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
