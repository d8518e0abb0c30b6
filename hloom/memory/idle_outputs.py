"""Temporaries in outputs that are not written yet.

The caller's buffers of outputs are there from the start, and most are written near the end. What
is needed before may stand in them: a training step whose gradients are all alive until the last
weight is updated then has as much less to hold beside its arguments and results.

Only what is alive when most is alive is worth it. So the largest of that is put where it fits, the
peak is looked for again, and so on until nothing at the peak fits in any output, or until many
outputs were looked at for each block.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hloom.memory.heap.buffer_interval import BufferInterval, aligned
from hloom.memory.heap.overlap import Overlap, Timeline, covered

TRIES = 200
"""Outputs looked at for each block and output of a program, on average at most."""
CHUNK = 512
"""Times of which one number is kept that is the most."""


@dataclass(frozen=True, slots=True)
class IdlePlace:
    """Where a temporary stands: the number of an output, and bytes from its start on."""

    output: int
    offset: int


def in_idle_outputs(
    blocks: Sequence[BufferInterval], outputs: Sequence[BufferInterval], alignment: int
) -> dict[int, IdlePlace]:
    """Which blocks stand in which output, so that at no time more bytes are alive of the rest than
    need be. No two that are alive together, the outputs themselves among them, share a byte."""
    places: dict[int, IdlePlace] = {}
    if not outputs:
        return places
    rooms = _Rooms(outputs, Timeline([*blocks, *outputs]), alignment)
    left = _Left(blocks, rooms.sizes[-1])
    profile = _Profile(blocks, left.timeline, alignment)
    rooms.tries = TRIES * (len(blocks) + len(outputs))
    while rooms.tries > 0:
        k = left.take(profile.peak())
        if k is None:
            break
        place = rooms.placed(blocks[k])
        if place is not None:
            places[k] = place
            profile.remove(k)
    return places


class _Left:
    """The blocks that may yet stand in an output, by when they are alive; large ones first."""

    def __init__(self, blocks: Sequence[BufferInterval], largest: int) -> None:
        self.timeline = Timeline(blocks)
        fitting = [k for k, b in enumerate(blocks) if 0 < b.size_bytes <= largest]
        self.ranked = ranked = sorted(fitting, key=lambda k: -blocks[k].size_bytes)
        self.is_taken = [False] * len(ranked)
        self.nodes: defaultdict[int, list[int]] = defaultdict(list)
        """Ranks of blocks alive all through what is below a node of the tree, the largest last."""
        for rank in range(len(ranked) - 1, -1, -1):
            for interval in blocks[ranked[rank]].intervals:
                for node in covered(*self.timeline.leaf_range(interval)):
                    self.nodes[node].append(rank)

    def take(self, time: int) -> int | None:
        """The largest block alive at a time (a rank), which is then left no more, if any is."""
        node, best = time + self.timeline.leaves, len(self.ranked)
        while node:
            ranks = self.nodes.get(node, ())
            while ranks and self.is_taken[ranks[-1]]:
                del ranks[-1]  # pyright: ignore
            if ranks:
                best = min(best, ranks[-1])
            node >>= 1
        if best == len(self.ranked):
            return None
        self.is_taken[best] = True
        return self.ranked[best]


class _Rooms:
    """The outputs, small ones first, and what stands in them so far."""

    def __init__(
        self, outputs: Sequence[BufferInterval], timeline: Timeline, alignment: int
    ) -> None:
        self.outputs = outputs
        self.alignment = alignment
        self.order = sorted(range(len(outputs)), key=lambda k: outputs[k].size_bytes)
        self.sizes = [outputs[k].size_bytes for k in self.order]
        self.timeline = timeline
        self.taken: dict[int, Overlap] = {}
        """By number of an output, where something stands in it."""
        self.tries = 0
        """How many more outputs are looked at."""

    def placed(self, b: BufferInterval) -> IdlePlace | None:
        """A place in the smallest output that has one."""
        size = aligned(b.size_bytes, self.alignment)
        for at in range(bisect_left(self.sizes, b.size_bytes), len(self.sizes)):
            self.tries -= 1
            number = self.order[at]
            if _together(self.outputs[number], b):
                continue
            taken = self.taken.get(number)
            offset = 0 if taken is None else _lowest_gap(taken, b, size)
            if offset + b.size_bytes <= self.sizes[at]:
                if taken is None:
                    taken = self.taken[number] = Overlap(self.timeline)
                taken.add(b, offset, offset + size)
                return IdlePlace(number, offset)
        return None


def _lowest_gap(taken: Overlap, b: BufferInterval, size: int) -> int:
    """The lowest offset at which a block fits beside what is alive with it."""
    free = 0
    for start, end in taken.taken_beside(b):
        if start - free >= size:
            break
        free = max(free, end)
    return free


def _together(a: BufferInterval, b: BufferInterval) -> bool:
    """Whether two blocks are alive at one time, or used by what may run side by side."""
    for name, (users, _) in a.concurrent_users.items():
        if users & b.concurrent_users.get(name, (0, 0))[1]:
            return True
    x, y = a.intervals, b.intervals
    i = j = 0
    while i < len(x) and j < len(y):
        if x[i][0] < y[j][1] and y[j][0] < x[i][1]:
            return True
        if x[i][1] <= y[j][1]:
            i += 1
        else:
            j += 1
    return False


class _Profile:
    """How many bytes are alive of the blocks that are left, between any two times."""

    def __init__(
        self, blocks: Sequence[BufferInterval], timeline: Timeline, alignment: int
    ) -> None:
        rank = timeline.rank
        self.spans = [[(rank[s], rank[e]) for s, e in b.intervals] for b in blocks]
        self.sizes = [aligned(b.size_bytes, alignment) for b in blocks]
        chunks = len(rank) // CHUNK + 1
        change = np.zeros(chunks * CHUNK, np.int64)
        for spans, size in zip(self.spans, self.sizes):
            for s, e in spans:
                change[s] += size
                change[e] -= size
        self.alive = np.cumsum(change).reshape(chunks, CHUNK)
        """Less `less` of the chunk."""
        self.less = np.zeros(chunks, np.int64)
        self.most = self.alive.max(axis=1)
        """Of each chunk."""

    def peak(self) -> int:
        """When most is alive, as a rank: the first such time."""
        chunk = int(self.most.argmax())
        return chunk * CHUNK + int(self.alive[chunk].argmax())

    def remove(self, k: int) -> None:
        size = self.sizes[k]
        for s, e in self.spans[k]:
            first, last = s // CHUNK, e // CHUNK
            if first == last:
                self._lower(first, s % CHUNK, e % CHUNK, size)
                continue
            self._lower(first, s % CHUNK, CHUNK, size)
            self._lower(last, 0, e % CHUNK, size)
            self.less[first + 1 : last] += size
            self.most[first + 1 : last] -= size

    def _lower(self, chunk: int, start: int, end: int, size: int) -> None:
        self.alive[chunk, start:end] -= size
        self.most[chunk] = self.alive[chunk].max() - self.less[chunk]
