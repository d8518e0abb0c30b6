"""Which thunks must wait for which: the execution graph of a sequence.

A thunk waits for an earlier one when one of the two writes what the other touches, or when both use
the same state (a random state, a feed). The graph has no edge that follows from others.

How: for each allocation the bytes are kept as pieces, each with who wrote it last and who has read
it since; a thunk only looks at the pieces it touches. Edges are then reduced with one bit set of
ancestors a thunk.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from hloom.program.thunks.thunk import Thunk, Use, all_states, all_uses


@dataclass(frozen=True)
class ExecutionGraph:
    """The thunks of one sequence and the edges between them, as pairs of positions."""

    thunks: tuple[Thunk, ...]
    edges: tuple[tuple[int, int], ...]

    @property
    def is_chain(self) -> bool:
        """Whether nothing may run at once: each thunk waits for the one before."""
        return len(self.edges) == len(self.thunks) - 1 and all(b == a + 1 for a, b in self.edges)


class _Pieces:
    """The bytes of one allocation: sorted pieces, each with its last writer and its readers."""

    __slots__ = ("readers", "starts", "writers")

    def __init__(self) -> None:
        self.starts = [0]
        self.writers = [-1]
        self.readers: list[list[int]] = [[]]

    def _cut(self, at: int) -> int:
        """The number of the piece that begins at an offset, made if there is none."""
        k = bisect_left(self.starts, at)
        if k == len(self.starts) or self.starts[k] != at:
            self.starts.insert(k, at)
            self.writers.insert(k, self.writers[k - 1])
            self.readers.insert(k, list(self.readers[k - 1]))
        return k

    def touch(self, number: int, use: Use) -> set[int]:
        """Whom a use by thunk `number` waits for; the use is recorded."""
        first = self._cut(use.slice.offset)
        last = self._cut(use.slice.end)
        found: set[int] = set()
        for k in range(first, last):
            found.add(self.writers[k])
            if not use.writes:
                self.readers[k].append(number)
                continue
            found.update(self.readers[k])
        if use.writes:
            # One writer for all of it: the pieces become one.
            self.starts[first:last] = [use.slice.offset]
            self.writers[first:last] = [number]
            self.readers[first:last] = [[]]
        found -= {-1, number}
        return found


def execution_graph(thunks: Sequence[Thunk]) -> ExecutionGraph:
    """The graph of a sequence; what stands inside a thunk counts as the thunk's own."""
    memory: dict[int, _Pieces] = {}
    states: dict[str, int] = {}
    ancestors: list[int] = []
    edges: list[tuple[int, int]] = []
    for number, t in enumerate(thunks):
        waits: set[int] = set()
        for use in sorted(all_uses(t), key=lambda u: u.writes):
            if use.slice.size_bytes:
                pieces = memory.setdefault(use.slice.allocation.index, _Pieces())
                waits |= pieces.touch(number, use)
        for state in all_states(t):
            if state in states:
                waits.add(states[state])
            states[state] = number
        seen = 0
        for other in sorted(waits, reverse=True):
            if not seen >> other & 1:
                edges.append((other, number))
                seen |= ancestors[other] | 1 << other
        ancestors.append(seen)
    return ExecutionGraph(tuple(thunks), tuple(sorted(edges)))
