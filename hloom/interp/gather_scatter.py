"""Scatter: updates combined into an array where index vectors say.

A window of updates that does not lie wholly inside is dropped. Updates of one place are applied
in row-major order of the index vectors. A combiner numpy knows is applied by `ufunc.at`,
overwriting by assignment (the last one stays); any other in rounds, each of which takes the next
update of every place that still has one, so that places never repeat within a round.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from hloom.interp.context import EvalContext
from hloom.interp.elementwise_real import is_float, winning_zeros, zeros_ordered
from hloom.interp.gather import (
    element_numbers,
    index_vectors,
    inner_dimensions,
    starts_of,
)
from hloom.interp.registry import MEANING
from hloom.interp.values import EvalValue
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction

Array = np.ndarray[Any, Any]
Arrays = tuple[Array, ...]

_UFUNCS = {
    "add": (np.add, np.logical_or),
    "multiply": (np.multiply, np.logical_and),
    "maximum": (np.maximum, np.logical_or),
    "minimum": (np.minimum, np.logical_and),
    "and": (np.bitwise_and, np.logical_and),
    "or": (np.bitwise_or, np.logical_or),
    "xor": (np.bitwise_xor, np.logical_xor),
}

WIDER = {
    np.dtype(narrow): np.dtype(wide)
    for narrow, wide in (
        (np.float16, np.float32),
        (ml_dtypes.bfloat16, np.float32),
        (np.float32, np.float64),
        (np.complex64, np.complex128),
    )
}
"""The types in which sums are made, so that no error grows with their number."""


@MEANING.of("scatter")
def scatter(i: Instruction, context: EvalContext, *values: Array) -> EvalValue:
    count = len(values) // 2
    inputs, indices, updates = values[:count], values[count], values[count + 1 :]
    a, full = i.attrs, inputs[0].shape
    vectors = index_vectors(indices, a.index_vector_dim)
    batch = vectors.shape[:-1]
    window_dims = list(a.update_window_dims)
    batch_dims = [d for d in range(updates[0].ndim) if d not in set(window_dims)]
    # One size for each operand dimension; those the updates do not have are 1.
    missing = {*a.inserted_window_dims, *a.input_batching_dims}
    window = iter(updates[0].shape[d] for d in window_dims)
    sizes = tuple(1 if d in missing else next(window) for d in range(len(full)))
    starts = starts_of(
        vectors,
        a.scatter_dims_to_operand_dims,
        a.input_batching_dims,
        a.scatter_indices_batching_dims,
        a.index_vector_dim,
    )
    fits = all(d in starts or sizes[d] <= full[d] for d in range(len(full)))
    inside = np.full(batch, fits, np.bool_)
    for d, start in starts.items():
        inside &= (start >= 0) & (start <= full[d] - sizes[d])
    keep = inside.reshape(-1)
    kept_starts = {d: np.broadcast_to(s, batch).reshape(-1)[keep] for d, s in starts.items()}
    laid_out = []
    for u in updates:
        rows = np.transpose(u, batch_dims + window_dims).reshape(keep.size, *sizes)
        laid_out.append(rows[keep] if not keep.all() else rows)
    results = _scattered(context, i.called[0], inputs, sizes, kept_starts, tuple(laid_out))
    return results if i.shape.is_tuple else results[0]


def _scattered(
    context: EvalContext,
    combiner: Computation,
    inputs: Arrays,
    sizes: tuple[int, ...],
    starts: dict[int, Array],
    updates: Arrays,
) -> Arrays:
    """`updates` [n, *sizes] into the inputs at n starts that are all inside."""
    full = inputs[0].shape
    if updates[0].size == 0 or inputs[0].size == 0:
        return inputs
    inner = inner_dimensions(full, sizes, starts) if overwritten(combiner) else 0
    outer = len(full) - inner
    numbers = element_numbers(full[:outer], sizes[:outer], starts, (len(updates[0]),)).reshape(-1)
    rows = tuple(x.copy().reshape(-1, *full[outer:]) for x in inputs)
    parts = tuple(u.reshape(-1, *full[outer:]) for u in updates)
    if not inner:
        flat = tuple(x.reshape(-1) for x in rows)
        elements = tuple(u.reshape(-1) for u in parts)
        results = apply_updates(context, combiner, flat, numbers, elements)
    else:
        for x, u in zip(rows, parts):
            x[numbers] = u
        results = rows
    return tuple(x.reshape(full) for x in results)


def overwritten(combiner: Computation) -> bool:
    """Whether the new value of each place is just its update."""
    count = len(combiner.parameters) // 2
    root = combiner.root
    roots = root.operands if root.opcode == "tuple" else (root,)
    return list(roots) == combiner.parameters[count:]


def apply_updates(
    context: EvalContext, combiner: Computation, arrays: Arrays, places: Array, updates: Arrays
) -> Arrays:
    """Combine updates [n] into flat arrays at the row-major places [n], in order.

    The arrays belong to the caller's result and are written to.
    """
    types = [p.shape.dtype for p in combiner.parameters]
    updates = tuple(u.astype(t.numpy, copy=False) for u, t in zip(updates, types[len(arrays) :]))
    if overwritten(combiner):
        for x, u in zip(arrays, updates):
            x[places] = u
        return arrays
    known = context.known_combiner(combiner) if len(arrays) == 1 else None
    ordered = types[0].is_complex and known in ("maximum", "minimum")
    if known is not None and not ordered and updates[0].dtype == arrays[0].dtype:
        return (_folded(known, types[0].is_pred, arrays[0], places, updates[0]),)
    for chosen in rounds(places):
        at = places[chosen]
        result = context.vectorised(
            combiner, *(x[at] for x in arrays), *(u[chosen] for u in updates)
        )
        for x, new in zip(arrays, result if isinstance(result, tuple) else (result,)):
            x[at] = new
    return arrays


def _folded(opcode: str, is_pred: bool, x: Array, places: Array, updates: Array) -> Array:
    """Updates folded into their places by an operation that numpy knows, zeros in their order."""
    if opcode == "add" and (wide := WIDER.get(x.dtype)) is not None:
        sums = x.astype(wide)
        np.add.at(sums, places, updates.astype(wide))
        return sums.astype(x.dtype)
    is_choice = opcode in ("maximum", "minimum") and is_float(x)
    before = x.copy() if is_choice else x
    _UFUNCS[opcode][is_pred].at(x, places, updates)
    if not is_choice:
        return x

    def either(winners: Array) -> Array:
        np.logical_or.at(winners, places, winning_zeros(opcode, updates))
        return winners

    return zeros_ordered(opcode, x, before, either)


def rounds(places: Array) -> list[Array]:
    """Positions in `places` such that each round names a place at most once and rounds keep the
    order: round k holds the k-th occurrence of every place."""
    if places.size == 0:
        return []
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first = np.empty(len(ordered), np.bool_)
    first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    begins = np.flatnonzero(first)
    occurrence = np.arange(len(ordered)) - np.repeat(
        begins, np.diff(np.append(begins, len(ordered)))
    )
    by_round = order[np.argsort(occurrence, kind="stable")]
    return np.split(by_round, np.cumsum(np.bincount(occurrence))[:-1])
