"""Finds what is alive together: a tree over time.

Each interval is kept at the few nodes that it covers whole (`covering`) and on the two paths from
its ends to the top (`inside`). A query looks at its own paths and covered nodes alone, so its cost
is that of its answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from hloom.memory.heap.buffer_interval import BufferInterval, Interval


class Overlap:
    """Blocks placed so far, by the times at which they are alive."""

    def __init__(self, blocks: Sequence[BufferInterval]) -> None:
        times = sorted({t for b in blocks for interval in b.intervals for t in interval})
        self.rank = {t: k for k, t in enumerate(times)}
        self.leaves = 1
        while self.leaves < len(times) + 1:
            self.leaves *= 2
        self.covering: list[list[int]] = [[] for _ in range(2 * self.leaves)]
        self.inside: list[list[int]] = [[] for _ in range(2 * self.leaves)]
        self.users: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        """By computation: what is used by branches that run beside others, and by which."""

    def add(self, key: int, block: BufferInterval) -> None:
        for name, (users, _) in block.concurrent_users.items():
            self.users[name].append((key, users))
        for start, end in block.intervals:
            low, high = self._leaves(start, end)
            for node in self._covered(low, high):
                self.covering[node].append(key)
            for node in self._paths(low, high):
                self.inside[node].append(key)

    def alive_with(self, block: BufferInterval) -> set[int]:
        """Everything added that is alive at some time of a block, or may be."""
        alive: set[int] = set()
        for name, (_, beside) in block.concurrent_users.items():
            alive.update([key for key, users in self.users[name] if users & beside])
        for start, end in block.intervals:
            low, high = self._leaves(start, end)
            for node in self._paths(low, high):
                alive.update(self.covering[node])
            for node in self._covered(low, high):
                alive.update(self.covering[node])
                alive.update(self.inside[node])
        return alive

    def _leaves(self, start: int, end: int) -> Interval:
        return self.rank[start] + self.leaves, self.rank[end] + self.leaves

    @staticmethod
    def _covered(low: int, high: int) -> Iterable[int]:
        while low < high:
            if low & 1:
                yield low
                low += 1
            if high & 1:
                high -= 1
                yield high
            low >>= 1
            high >>= 1

    @staticmethod
    def _paths(low: int, high: int) -> Iterable[int]:
        high -= 1
        while low:
            yield low
            if high != low:
                yield high
            low >>= 1
            high >>= 1
