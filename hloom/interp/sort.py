"""Sort and topk.

A sort is always stable here. Comparators that compare keys (`sort_keys.py`) are left to numpy,
any other runs in a merge sort (`sort_merge.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.context import EvalContext
from hloom.interp.registry import MEANING
from hloom.interp.sort_keys import ascending, key_values, keys_of
from hloom.interp.sort_merge import LIBRARY_LENGTH, library_order, merged_order
from hloom.interp.values import EvalValue
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction

Array = np.ndarray[Any, Any]


@MEANING.of("sort")
def sort(i: Instruction, context: EvalContext, *inputs: Array) -> EvalValue:
    axis = i.attrs.dimensions[0] if i.attrs.dimensions else inputs[0].ndim - 1
    if inputs[0].ndim == 0 or inputs[0].shape[axis] < 2 or inputs[0].size == 0:
        results = inputs
    else:
        order = _order(context, i.called[0], inputs, axis)
        results = tuple(np.take_along_axis(x, order, axis) for x in inputs)
    return results if i.shape.is_tuple else results[0]


def _order(
    context: EvalContext, comparator: Computation, inputs: tuple[Array, ...], axis: int
) -> Array:
    """For each place of the result, where along `axis` its element comes from."""
    keys = keys_of(comparator)
    if keys is not None:
        numbers = []
        for key in keys:
            values = key_values(context, key, inputs)
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
    sorted_by = library_order if count <= LIBRARY_LENGTH else merged_order
    order = sorted_by(context, comparator, flat)
    return np.moveaxis(order.reshape(rows[0].shape), -1, axis)


# -- topk ---------------------------------------------------------------------------------------


@MEANING.of("topk")
def topk(i: Instruction, context: EvalContext, x: Array) -> EvalValue:
    """The order of the total-order sort; of equal elements the first comes first."""
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
