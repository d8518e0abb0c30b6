"""Gather: slices of an array, taken where index vectors say.

Both gather and scatter turn index vectors into row-major numbers of elements. Trailing
dimensions that are taken whole are left out of that (`inner`), so a lookup of embedding rows
copies rows, not elements.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hloom.interp.context import EvalContext
from hloom.interp.registry import MEANING
from hloom.ir.instruction import Instruction

Array = np.ndarray[Any, Any]


def index_vectors(indices: Array, index_vector_dim: int) -> Array:
    """Indices as s64 with the index vectors in the last dimension."""
    if index_vector_dim == indices.ndim:
        indices = indices[..., None]
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(2**63 - 1))
    wide = indices.astype(np.int64)
    return np.moveaxis(wide, index_vector_dim, -1)


def starts_of(
    vectors: Array,
    index_map: tuple[int, ...],
    operand_batch: tuple[int, ...],
    indices_batch: tuple[int, ...],
    index_vector_dim: int,
) -> dict[int, Array]:
    """For each operand dimension that an index or a batch dimension places: where the slice
    starts, broadcastable to the batch shape of `vectors`."""
    starts = {d: vectors[..., k] for k, d in enumerate(index_map)}
    batch = vectors.shape[:-1]
    for d, b in zip(operand_batch, indices_batch):
        at = b if b < index_vector_dim else b - 1
        around = [1] * len(batch)
        around[at] = batch[at]
        starts[d] = np.arange(batch[at], dtype=np.int64).reshape(around)
    return starts


def inner_dimensions(full: tuple[int, ...], sizes: tuple[int, ...], placed: Any) -> int:
    """How many trailing dimensions are taken whole."""
    count = 0
    for d in range(len(full) - 1, -1, -1):
        if d in placed or sizes[d] != full[d]:
            break
        count += 1
    return count


def strides_of(full: tuple[int, ...]) -> list[int]:
    """Row-major distances, in elements."""
    strides = [1] * len(full)
    for d in range(len(full) - 2, -1, -1):
        strides[d] = strides[d + 1] * full[d + 1]
    return strides


def element_numbers(
    full: tuple[int, ...], sizes: tuple[int, ...], starts: dict[int, Array], batch: tuple[int, ...]
) -> Array:
    """Row-major numbers, in an array of shape `full`, of blocks of `sizes`: [*batch, *sizes]."""
    strides = strides_of(full)
    base = np.zeros(batch, np.int64)
    for d, start in starts.items():
        base += start * strides[d]
    block = np.zeros((), np.int64)
    for d, size in enumerate(sizes):
        block = block[..., None] + np.arange(size, dtype=np.int64) * strides[d]
    return base.reshape((*batch, *(1,) * len(sizes))) + block


@MEANING.of("gather")
def gather(i: Instruction, context: EvalContext, x: Array, indices: Array) -> Array:
    a = i.attrs
    # Where the operand has fewer elements than it may have, so have whole slices of it.
    sizes = tuple(min(s, n) for s, n in zip(a.slice_sizes, x.shape))
    vectors = index_vectors(indices, a.index_vector_dim)
    starts = starts_of(
        vectors,
        a.start_index_map,
        a.operand_batching_dims,
        a.start_indices_batching_dims,
        a.index_vector_dim,
    )
    starts = {d: np.clip(s, 0, x.shape[d] - sizes[d]) for d, s in starts.items()}
    batch = vectors.shape[:-1]
    dropped = {*a.collapsed_slice_dims, *a.operand_batching_dims}
    window = tuple(n for d, n in enumerate(sizes) if d not in dropped)
    inner = inner_dimensions(x.shape, sizes, starts)
    outer = x.ndim - inner
    if 0 in batch or 0 in window or x.size == 0:
        windows = np.zeros((*batch, *window), x.dtype)
    else:
        numbers = element_numbers(x.shape[:outer], sizes[:outer], starts, batch)
        rows = x.reshape(-1, prod(x.shape[outer:]))
        windows = rows[numbers.reshape(-1)].reshape((*batch, *window))
    # Result dimensions are batch and window dimensions interleaved.
    rank = len(batch) + len(window)
    offset = list(a.offset_dims)
    order = [d for d in range(rank) if d not in set(offset)] + offset
    return np.transpose(windows, np.argsort(order)) if rank else windows
