"""Select-and-scatter: what max pooling does backwards.

In each window the elements are visited in row-major order; the current choice stays while
select(choice, element) holds, so that of equal elements the first is chosen under `GE`. Then each
element of source, in row-major order, goes into the chosen place by scatter(present, element).
"""

from __future__ import annotations

from math import prod

import numpy as np

from hloom.interp.context import EvalContext
from hloom.interp.gather_scatter import apply_updates
from hloom.interp.reduce_fold import Array
from hloom.interp.reduce_window import offsets
from hloom.interp.registry import MEANING
from hloom.ir.instruction import Instruction
from hloom.ir.values.window import WindowDimension


@MEANING.of("select-and-scatter")
def select_and_scatter(
    i: Instruction, context: EvalContext, x: Array, source: Array, init: Array
) -> Array:
    scatter = i.called[1]
    dimensions = i.attrs.window.dimensions or (WindowDimension(1),) * x.ndim
    chosen = _chosen(context, i, x, source.shape, dimensions)
    out = np.full(x.size, init.astype(i.shape.dtype.numpy)[()], i.shape.dtype.numpy)
    places, updates = chosen.reshape(-1), source.reshape(-1)
    met = places >= 0
    (out,) = apply_updates(context, scatter, (out,), places[met], (updates[met],))
    return out.reshape(x.shape)


def _chosen(
    context: EvalContext,
    i: Instruction,
    x: Array,
    positions: tuple[int, ...],
    dimensions: tuple[WindowDimension, ...],
) -> Array:
    """For each window position the row-major number of the chosen element, -1 for none."""
    number = np.arange(prod(x.shape), dtype=np.int64).reshape(x.shape)
    best = np.zeros(positions, x.dtype)
    at = np.full(positions, -1, np.int64)
    for where, elements in offsets(dimensions, x.shape, positions):
        candidate, now, place = x[elements], best[where], at[where]
        stays = context.vectorised(i.called[0], now, candidate) & (place >= 0)
        best[where] = np.where(stays, now, candidate)
        at[where] = np.where(stays, place, number[elements])
    return at
