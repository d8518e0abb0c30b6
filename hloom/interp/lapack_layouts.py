"""What a routine that reads matrices column by column sees of arrays in other layouts.

LAPACK's custom calls are handed memory. JAX states column-major layouts for matrices, in which they
are what the program says. Where a call states none, XLA hands over row-major memory whatever the
shapes say of layouts, and the routine sees each matrix of `[m,n]` as the columns of `[n,m]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hloom.interp.elementwise_number import Array
from hloom.ir.instruction import Instruction
from hloom.types.shape import Shape

Order = tuple[int, ...]


def operands_seen(i: Instruction, ranks: Sequence[int], inputs: Sequence[Any]) -> list[Array]:
    """The operands as the routine sees them; `ranks` are those without the batch."""
    stated = i.attrs.operand_layout_constraints
    seen = []
    for k, (x, rank) in enumerate(zip(inputs, ranks, strict=True)):
        order = _order(stated[k] if stated is not None else None, x.ndim)
        seen.append(_read_as(x, order, _by_columns(x.ndim - rank, x.ndim)))
    return seen


def results_left(
    i: Instruction, batch: int, leaves: Sequence[Shape], results: Sequence[Array]
) -> list[Array]:
    """The results of the program, where the routine left these behind `batch` dimensions."""
    is_stated = i.attrs.operand_layout_constraints is not None
    left = []
    for leaf, x in zip(leaves, results, strict=True):
        order = _order(leaf if is_stated else None, x.ndim)
        left.append(_read_as(x, _by_columns(batch, x.ndim), order))
    return left


def _order(s: Shape | None, rank: int) -> Order:
    """The dimensions as they lie in memory, the slowest first; row-major where nothing is said."""
    layout = s.layout if s is not None else None
    return tuple(range(rank)) if layout is None else tuple(layout.minor_to_major[::-1])


def _by_columns(batch: int, rank: int) -> Order:
    return (*range(batch), *range(rank - 1, batch - 1, -1))


def _read_as(x: Array, written: Order, read: Order) -> Array:
    """The array of the same sizes that memory holds in one order when it is read in another."""
    if written == read:
        return x
    memory = np.ascontiguousarray(x.transpose(written))
    return memory.reshape([x.shape[d] for d in read]).transpose(np.argsort(read))
