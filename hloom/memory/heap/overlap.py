"""Finds what is taken while something is alive: a tree over time.

Each interval is kept at the few nodes that it covers whole (`covering`) and on the two paths from
its ends to the top (`inside`). A query looks at its own paths and covered nodes alone. Nodes keep
the bytes that are taken, not what takes them: blocks beside one another are one span there, so
that a query costs as many spans as memory has holes, however many blocks are alive.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

from hloom.memory.heap.buffer_interval import BufferInterval, Interval


class Timeline:
    """The times at which blocks begin and end, as leaves of a tree."""

    def __init__(self, blocks: Iterable[BufferInterval]) -> None:
        times = sorted({t for b in blocks for interval in b.intervals for t in interval})
        self.rank = {t: k for k, t in enumerate(times)}
        self.leaves = 1
        while self.leaves < len(times) + 1:
            self.leaves *= 2

    def leaf_range(self, interval: Interval) -> Interval:
        """The leaves of an interval: the first, and the one behind the last."""
        return self.rank[interval[0]] + self.leaves, self.rank[interval[1]] + self.leaves


class Spans:
    """Disjoint spans of bytes; those that touch are one."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Take the bytes from `start` to `end`, some of which may be taken already."""
        first, last = bisect_left(self.ends, start), bisect_right(self.starts, end)
        if first < last:
            start, end = min(start, self.starts[first]), max(end, self.ends[last - 1])
        self.starts[first:last], self.ends[first:last] = [start], [end]


class Overlap:
    """Bytes taken so far, by the times at which they are."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.covering: defaultdict[int, Spans] = defaultdict(Spans)
        self.inside: defaultdict[int, Spans] = defaultdict(Spans)
        self.users: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
        """By computation: what is used by branches that run beside others, and by which."""

    def add(self, block: BufferInterval, start: int, end: int) -> None:
        """A block takes the bytes from `start` to `end`."""
        for name, (users, _) in block.concurrent_users.items():
            self.users[name].append((start, end, users))
        for interval in block.intervals:
            low, high = self.timeline.leaf_range(interval)
            for node in covered(low, high):
                self.covering[node].add(start, end)
            for node in _paths(low, high):
                self.inside[node].add(start, end)

    def taken_beside(self, block: BufferInterval) -> list[Interval]:
        """The bytes taken at some time at which a block is alive, or may be; in order, perhaps
        some of them more often than once."""
        spans: list[Interval] = []
        for name, (_, beside) in block.concurrent_users.items():
            spans += [(start, end) for start, end, users in self.users[name] if users & beside]
        parts: list[Spans] = []
        for interval in block.intervals:
            low, high = self.timeline.leaf_range(interval)
            parts += _known(self.covering, _paths(low, high))
            nodes = list(covered(low, high))
            parts += _known(self.covering, nodes)
            parts += _known(self.inside, nodes)
        for part in parts:
            spans += zip(part.starts, part.ends)
        spans.sort()
        return spans


def _known(table: dict[int, Spans], nodes: Iterable[int]) -> list[Spans]:
    return [table[node] for node in nodes if node in table]


def covered(low: int, high: int) -> Iterable[int]:
    """The nodes that together are a range of leaves."""
    while low < high:
        if low & 1:
            yield low
            low += 1
        if high & 1:
            high -= 1
            yield high
        low >>= 1
        high >>= 1


def _paths(low: int, high: int) -> Sequence[int]:
    """The nodes above the ends of a range of leaves, those leaves among them."""
    high -= 1
    nodes: list[int] = []
    while low:
        nodes.append(low)
        if high != low:
            nodes.append(high)
        low >>= 1
        high >>= 1
    return nodes
