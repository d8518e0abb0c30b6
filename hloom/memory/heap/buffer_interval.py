"""What heaps pack: blocks that are alive at some times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hloom.base.registry import Registry

Interval = tuple[int, int]
"""Half-open, in any unit of time."""


@dataclass(frozen=True, slots=True)
class BufferInterval:
    """So many bytes, alive in these disjoint, sorted intervals."""

    size_bytes: int
    intervals: tuple[Interval, ...]
    concurrent_users: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Who uses it of what runs side by side, as bits for each computation, and who may be under
    way with them: blocks of these are alive together with it, whatever their times are."""


@dataclass(frozen=True, slots=True)
class Packing:
    """An offset for each block, and the bytes of all together."""

    offsets: list[int]
    total_bytes: int


Heap = Callable[[Sequence[BufferInterval], int], Packing]
"""(blocks, alignment of every offset in bytes) -> packing."""

HEAPS: Registry[str, Heap] = Registry("heap")
"""Algorithms by name."""


def live_bytes(blocks: Sequence[BufferInterval], alignment: int = 1) -> int:
    """The most bytes alive at any one time: no heap can do with less."""
    change: dict[int, int] = {}
    for block in blocks:
        size = aligned(block.size_bytes, alignment)
        for start, end in block.intervals:
            change[start] = change.get(start, 0) + size
            change[end] = change.get(end, 0) - size
    now = most = 0
    for time in sorted(change):
        now += change[time]
        most = max(most, now)
    return most


def aligned(size: int, alignment: int) -> int:
    """The next multiple of the alignment."""
    return -(-size // alignment) * alignment
