"""What gather and scatter with one index vector have in common."""

from __future__ import annotations

from math import prod

from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expansion


def has_one_vector(indices: Instruction, vector_dim: int) -> bool:
    """Whether the indices hold exactly one vector."""
    dims = indices.shape.dims
    return prod(n for d, n in enumerate(dims) if d != vector_dim) == 1


def starts(
    b: Expansion, indices: Instruction, index_map: tuple[int, ...], rank: int
) -> list[Instruction]:
    """Where the one slice starts, a scalar of the indices' type for each operand dimension."""
    dtype = indices.shape.dtype
    flat = b.reshaped(indices, (len(index_map),))
    start_of = {d: b.reshaped(b.sliced(flat, 0, k, k + 1), ()) for k, d in enumerate(index_map)}
    zero = b.scalar(0, dtype)
    return [start_of.get(d, zero) for d in range(rank)]
