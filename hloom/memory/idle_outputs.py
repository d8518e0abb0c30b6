"""Temporaries in outputs that are not written yet.

The caller's buffers of outputs are there from the start, and most are written near the end. What
is needed before may stand in them: a training step whose gradients are all alive until the last
weight is updated then has as much less to hold beside its arguments and results.

Only what is alive when most is alive is worth it. So the largest of that is put where it fits, the
peak is looked for again, and so on until nothing at the peak fits in any output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hloom.memory.heap.buffer_interval import BufferInterval, aligned


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
    rooms = [_Room(k, o) for k, o in enumerate(outputs)]
    profile = _Profile(blocks, alignment)
    places: dict[int, IdlePlace] = {}
    if not rooms:
        return places
    largest = max(r.size for r in rooms)
    fitting = [k for k, b in enumerate(blocks) if 0 < b.size_bytes <= largest and b.intervals]
    ranked = sorted(fitting, key=lambda k: -blocks[k].size_bytes)
    left = dict.fromkeys(ranked)
    rooms.sort(key=lambda r: r.size)
    while left:
        peak = profile.peak()
        for k in [k for k in left if profile.is_alive(k, peak)]:
            del left[k]
            place = _placed(blocks[k], rooms, alignment)
            if place is not None:
                places[k] = place
                profile.remove(k)
                break
        else:
            return places
    return places


def _placed(b: BufferInterval, rooms: list[_Room], alignment: int) -> IdlePlace | None:
    """A place in the smallest output that has one."""
    size = aligned(b.size_bytes, alignment)
    for room in rooms:
        if room.size < b.size_bytes:
            continue
        offset = room.gap(b, alignment)
        if offset is not None:
            room.held.append((offset, offset + size, b))
            return IdlePlace(room.number, offset)
    return None


class _Room:
    """An output, and what stands in it so far."""

    def __init__(self, number: int, output: BufferInterval) -> None:
        self.number = number
        self.size = output.size_bytes
        self.held: list[tuple[int, int, BufferInterval]] = [(0, self.size, output)]

    def gap(self, b: BufferInterval, alignment: int) -> int | None:
        """The lowest offset at which a block fits beside what is alive with it."""
        free = 0
        for start, end, _ in sorted([h[:2] + (0,) for h in self.held if _together(h[2], b)]):
            if start - free >= aligned(b.size_bytes, alignment):
                break
            free = max(free, aligned(end, alignment))
        return free if free + b.size_bytes <= self.size else None


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

    def __init__(self, blocks: Sequence[BufferInterval], alignment: int) -> None:
        times = sorted({t for b in blocks for interval in b.intervals for t in interval})
        rank = {t: k for k, t in enumerate(times)}
        self.spans = [[(rank[s], rank[e]) for s, e in b.intervals] for b in blocks]
        self.sizes = [aligned(b.size_bytes, alignment) for b in blocks]
        change = np.zeros(len(times) + 1, np.int64)
        for spans, size in zip(self.spans, self.sizes):
            for s, e in spans:
                change[s] += size
                change[e] -= size
        self.alive = np.cumsum(change)

    def peak(self) -> int:
        """When most is alive, as a rank."""
        return int(self.alive.argmax())

    def is_alive(self, k: int, rank: int) -> bool:
        return any(s <= rank < e for s, e in self.spans[k])

    def remove(self, k: int) -> None:
        for s, e in self.spans[k]:
            self.alive[s:e] -= self.sizes[k]
