"""Best fit by decreasing size: large blocks first, each into the tightest gap there is.

Large blocks decide the total; small ones find room between them. What is alive longest goes first
among equals, since it is the hardest to place.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.memory.heap.buffer_interval import HEAPS, BufferInterval, Interval, Packing, aligned
from hloom.memory.heap.overlap import Overlap, Timeline


@HEAPS.of("best-fit")
def best_fit(blocks: Sequence[BufferInterval], alignment: int) -> Packing:
    """See the module docstring."""

    def rank(k: int) -> tuple[int, int, int]:
        b = blocks[k]
        return -b.size_bytes, b.intervals[0][0] - b.intervals[-1][1], b.intervals[0][0]

    return placed(blocks, sorted(_used(blocks), key=rank), alignment, tightest=True)


def _used(blocks: Sequence[BufferInterval]) -> list[int]:
    return [k for k, b in enumerate(blocks) if b.size_bytes and b.intervals]


def placed(
    blocks: Sequence[BufferInterval], order: Sequence[int], alignment: int, *, tightest: bool
) -> Packing:
    """Place the blocks in this order, each into the tightest (or lowest) gap that holds it."""
    offsets = [0] * len(blocks)
    overlap = Overlap(Timeline(blocks[k] for k in order))
    total = 0
    for k in order:
        block = blocks[k]
        size = aligned(block.size_bytes, alignment)
        offsets[k] = offset = _gap(overlap.taken_beside(block), size, tightest)
        total = max(total, offset + size)
        overlap.add(block, offset, offset + size)
    return Packing(offsets, total)


def _gap(taken: list[Interval], size: int, tightest: bool) -> int:
    """Where `size` bytes fit between what is taken, or behind it."""
    free = 0
    best, best_size = -1, 0
    for start, end in taken:
        gap = start - free
        if gap >= size and (best < 0 or gap < best_size):
            best, best_size = free, gap
            if not tightest or gap == size:
                return best
        free = max(free, end)
    return best if best >= 0 else free
