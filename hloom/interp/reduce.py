"""Map and reduce."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hloom.interp.context import EvalContext
from hloom.interp.elementwise_real import is_float, winning_zeros, zeros_ordered
from hloom.interp.reduce_fold import Fold, as_result, fold_of, fold_rows, result_types
from hloom.interp.registry import MEANING
from hloom.interp.values import EvalValue
from hloom.ir.instruction import Instruction

Array = np.ndarray[Any, Any]


@MEANING.of("map")
def map_(i: Instruction, context: EvalContext, *inputs: Array) -> EvalValue:
    return context.vectorised(i.called[0], *inputs)


def _with_zeros_ordered(
    fold: Fold, total: Array, x: Array, start: Array, axes: tuple[int, ...]
) -> Array:
    opcode = fold.opcode or ""
    if opcode not in ("maximum", "minimum") or not is_float(total):
        return total
    first = winning_zeros(opcode, start)
    return zeros_ordered(opcode, total, x, lambda p: np.logical_or.reduce(p, axis=axes) | first)


@MEANING.of("reduce")
def reduce(i: Instruction, context: EvalContext, *values: Array) -> EvalValue:
    count = len(values) // 2
    inputs, initial = values[:count], values[count:]
    axes = tuple(sorted(i.attrs.dimensions))
    fold, types = fold_of(context, i.called[0], count), result_types(i.shape)
    if fold.ufunc is not None and fold.wide is not None:
        start = fold.enter(initial)[0]
        x = inputs[0] if inputs[0].dtype.kind in "fciub" else fold.enter(inputs)[0]
        total = fold.ufunc.reduce(x, axis=axes, dtype=fold.wide, initial=start[()])
        total = _with_zeros_ordered(fold, np.asarray(total), x, start, axes)
        return as_result(i.shape, fold.leave((total,), types))
    rank = inputs[0].ndim
    kept_dims = [k for k in range(rank) if k not in axes]
    sizes = tuple(inputs[0].shape[k] for k in kept_dims)
    steps, width = prod(inputs[0].shape[k] for k in axes), prod(sizes)
    order = [*axes, *kept_dims]
    rows = tuple(np.transpose(x, order).reshape(steps, width) for x in inputs)
    start = tuple(np.broadcast_to(v, (width,)) for v in fold.enter(initial))
    if width:
        start = fold_rows(fold, rows, start)
    return as_result(i.shape, tuple(v.reshape(sizes) for v in fold.leave(start, types)))
