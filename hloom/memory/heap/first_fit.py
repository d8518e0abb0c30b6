"""First fit in order of birth: what an allocator at run time would do. Here to compare with."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.memory.heap.best_fit import placed
from hloom.memory.heap.buffer_interval import HEAPS, BufferInterval, Packing


@HEAPS.of("first-fit")
def first_fit(blocks: Sequence[BufferInterval], alignment: int) -> Packing:
    """Each block, in order of birth, at the lowest offset where it fits."""
    used = [k for k, b in enumerate(blocks) if b.size_bytes and b.intervals]
    order = sorted(used, key=lambda k: (blocks[k].intervals[0][0], -blocks[k].size_bytes))
    return placed(blocks, order, alignment, tightest=False)
