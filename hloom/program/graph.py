"""Which thunks must wait for which: the execution graph of a sequence, and whether runs do.

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

from hloom.program.thunks.concurrent import Concurrent
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
        neighbours: set[int] = set()
        for k in range(first, last):
            neighbours.add(self.writers[k])
            if not use.writes:
                self.readers[k].append(number)
                continue
            neighbours.update(self.readers[k])
        if use.writes:
            # One writer for all of it: the pieces become one.
            self.starts[first:last] = [use.slice.offset]
            self.writers[first:last] = [number]
            self.readers[first:last] = [[]]
        neighbours -= {-1, number}
        return neighbours


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


@dataclass(frozen=True)
class Race:
    """Two runs that may be under way at once, although one changes what the other uses."""

    first: int
    second: int
    over: str
    """The bytes, or the state."""

    def __str__(self) -> str:
        return f"runs {self.first} and {self.second} may run at once, and share {self.over}"


def races(t: Concurrent) -> list[Race]:
    """The pairs of runs that have to wait for each other and do not; by their uses alone."""
    whole = [_whole(run.thunks) for run in t.runs]
    before: list[int] = []
    races_: list[Race] = []
    for b, run in enumerate(t.runs):
        seen = 0
        for w in run.waits:
            seen |= before[w] | 1 << w
        before.append(seen)
        for a in range(b):
            if not seen >> a & 1 and (over := _conflict(whole[a], whole[b])):
                races_.append(Race(a, b, over))
    return races_


def _whole(thunks: Sequence[Thunk]) -> tuple[list[Use], set[str]]:
    """The uses and the states of a sequence."""
    uses = dict.fromkeys([use for t in thunks for use in all_uses(t)])
    return list(uses), {state for t in thunks for state in all_states(t)}


def _conflict(a: tuple[list[Use], set[str]], b: tuple[list[Use], set[str]]) -> str:
    """What two sequences may not use at once; empty if there is nothing."""
    for x in a[0]:
        for y in b[0]:
            if (x.writes or y.writes) and x.slice.overlaps(y.slice):
                return str(x.slice)
    return min(a[1] & b[1], default="")
