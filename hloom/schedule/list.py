"""List scheduling: of what is ready, always the instruction that shrinks memory most.

The value of an instruction is the bytes it frees less the bytes it makes. It changes while others
run, as a buffer comes to its last reader; the heap then gets a second entry for that reader, and
entries that are no longer true are dropped when they come up. So the whole costs n log n.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from hloom.schedule.footprint import Footprint


class ListScheduler:
    """One run of list scheduling."""

    def __init__(self, f: Footprint) -> None:
        self.f = f
        self.waits = f.waits
        self.wished = [0] * len(f.needs)
        self.wishers: list[list[int]] = [[] for _ in f.needs]
        for reader, wishes in enumerate(f.wishes):
            for k in wishes:
                self.wished[k] += 1
                self.wishers[k].append(reader)
        self.left: list[list[int]] = [[] for _ in f.sizes]
        for k, reads in enumerate(f.reads):
            for b in reads:
                self.left[b].append(k)
        self.count = [len(r) for r in self.left]
        for b in f.live_out:
            self.count[b] += 1
        self.gain = [self._gain(k) for k in range(len(f.needs))]
        self.done = [False] * len(f.needs)
        self.heap: list[tuple[int, int]] = []
        self.delayed: list[tuple[int, int]] = []
        """What only a wish holds back, by position."""

    def _gain(self, k: int) -> int:
        f = self.f
        freed = sum([f.sizes[b] for b in f.reads[k] if self.count[b] == 1])
        return freed - sum([f.sizes[b] for b in f.makes[k]])

    def order(self) -> list[int]:
        """Positions in the order chosen."""
        self.heap = [
            (-self.gain[k], k) for k, n in enumerate(self.waits) if not n and not self.wished[k]
        ]
        heapify(self.heap)
        self.delayed = [(k, k) for k, n in enumerate(self.waits) if not n and self.wished[k]]
        heapify(self.delayed)
        order: list[int] = []
        while len(order) < len(self.waits):
            k = self._next()
            self.done[k] = True
            order.append(k)
            self._run(k)
        return order

    def _next(self) -> int:
        """The best that is ready; where wishes form a ring, the first that they hold."""
        while self.heap:
            gain, k = heappop(self.heap)
            if not self.done[k] and -gain == self.gain[k]:
                return k
        while True:
            _, k = heappop(self.delayed)
            if not self.done[k]:
                break
        heappush(self.delayed, (k, k))
        seen = {k}
        while True:
            # What only waits for something that is itself held is not what the ring is about.
            for w in self.wishers[k]:
                if not self.done[w] and not self.waits[w] and w not in seen:
                    seen.add(w)
                    k = w
                    break
            else:
                return k

    def _run(self, k: int) -> None:
        f, done, waits, wished, heap = self.f, self.done, self.waits, self.wished, self.heap
        for b in f.reads[k]:
            self.count[b] -= 1
            if self.count[b] == 1 and f.sizes[b] and b not in f.live_out:
                for reader in self.left[b]:
                    if not done[reader]:
                        self.gain[reader] += f.sizes[b]
                        if not waits[reader] and not wished[reader]:
                            heappush(heap, (-self.gain[reader], reader))
                        break
        for x in f.follows[k]:
            waits[x] -= 1
            if not waits[x]:
                if wished[x]:
                    heappush(self.delayed, (x, x))
                else:
                    heappush(heap, (-self.gain[x], x))
        for x in f.wishes[k]:
            wished[x] -= 1
            if not wished[x] and not waits[x] and not done[x]:
                heappush(heap, (-self.gain[x], x))


def list_order(f: Footprint) -> list[int]:
    """Positions in the order that list scheduling finds."""
    return ListScheduler(f).order()
