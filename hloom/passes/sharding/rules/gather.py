"""Factors of indexed reads and writes."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.sharding.counted_indices import counted_by_gather, counted_by_scatter
from hloom.passes.sharding.factors import RULES, FactorTable, Kind


@RULES.of("gather")
def gather(table: FactorTable, i: Instruction) -> None:
    """Batching dimensions and rows of indices stand in the result; so does what a slice takes
    whole. Where single rows are taken, a device takes those that it has: the others add zeros."""
    a = i.attrs
    x, indices = table.operand_dims
    batch_of: dict[int, int] = dict(zip(a.start_indices_batching_dims, a.operand_batching_dims))
    batch_of |= counted_by_gather(i)
    places = iter(d for d in range(i.shape.rank) if d not in a.offset_dims)
    for d, size in enumerate(indices):
        if d == a.index_vector_dim:
            continue
        operands = {1: d} if d not in batch_of else {0: batch_of[d], 1: d}
        table.add(size, operands, {0: next(places)})
    offsets = iter(a.offset_dims)
    for d, size in enumerate(x):
        if d in batch_of.values():
            continue
        if d in a.collapsed_slice_dims:
            table.add(size, {0: d}, {}, Kind.REDUCE)
            continue
        offset = next(offsets)
        if a.slice_sizes[d] == size:
            table.add(size, {0: d}, {0: offset})


@RULES.of("scatter")
def scatter(table: FactorTable, i: Instruction) -> None:
    """The other way round: a device writes what falls into its rows; of parts of the updates
    every device makes what they would have added."""
    a = i.attrs
    n = len(i.operands) // 2
    arrays, updates = range(n), range(n + 1, 2 * n + 1)
    results = range(len(table.result_dims))
    x, indices, update = (table.operand_dims[k] for k in (0, n, n + 1))
    batch_of: dict[int, int] = dict(zip(a.scatter_indices_batching_dims, a.input_batching_dims))
    batch_of |= counted_by_scatter(i)
    places = iter(d for d in range(len(update)) if d not in a.update_window_dims)
    for d, size in enumerate(indices):
        if d == a.index_vector_dim:
            continue
        places_of = {n: d, **dict.fromkeys(updates, next(places))}
        if d in batch_of:
            of = batch_of[d]
            operands: dict[int, int] = {**places_of, **dict.fromkeys(arrays, of)}
            table.add(size, operands, dict.fromkeys(results, of))
        else:
            table.add(size, places_of, {}, Kind.REDUCE)
    windows = iter(a.update_window_dims)
    for d, size in enumerate(x):
        if d in batch_of.values():
            continue
        operands: dict[int, int] = dict.fromkeys(arrays, d)
        if d not in a.inserted_window_dims:
            window: int = next(windows)
            if update[window] != size:
                continue
            operands |= dict.fromkeys(updates, window)
        table.add(size, operands, dict.fromkeys(results, d))
