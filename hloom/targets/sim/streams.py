"""Which stream of a device runs each thunk, and who waits for whom.

A stream is an engine of the device with the thunks it runs, in order. Copies between memory spaces
go to the engine that makes them, what meets other devices to that which communicates, everything
else to a compute stream: the one that could begin
first, by the costs, and the one that need not wait if several could. A thunk waits for one of
another stream where the execution graph has an edge that no wait before it, and no order of
streams, implies; so leaving out any wait lets two thunks race.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hloom.device.device import Device
from hloom.device.timing import copy_engine
from hloom.program.graph import execution_graph
from hloom.program.thunks.among_devices import AmongDevices
from hloom.program.thunks.async_call import AsyncStart
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.thunk import Thunk

Guess = Callable[[Thunk], float]
"""How long a thunk takes, in nanoseconds."""


@dataclass(frozen=True)
class Wait:
    """`thunk` begins when `for_` has ended; both are positions in the sequence."""

    number: int
    """Of the wait, in the whole program."""
    thunk: int
    for_: int


@dataclass
class SequenceStreams:
    """A sequence of thunks on streams, with those inside them."""

    thunks: tuple[Thunk, ...]
    stream: list[str]
    """Of each thunk."""
    waits: list[list[Wait]]
    """Of each thunk."""
    inner: dict[int, tuple[SequenceStreams, ...]] = field(default_factory=dict)
    """By the position of a thunk that holds sequences."""
    number: int = 0
    """Of the sequence, in the whole program."""

    def order(self, stream: str) -> list[int]:
        """What a stream runs."""
        return [k for k, s in enumerate(self.stream) if s == stream]

    @property
    def streams(self) -> list[str]:
        """The streams that are used, in the order of their first thunk."""
        return list(dict.fromkeys(self.stream))


@dataclass
class StreamAssignment:
    """A program on streams."""

    main: SequenceStreams
    waits: list[tuple[Thunk, Thunk]]
    """Who waits and for whom, by number."""


def stream_assignment(thunks: Sequence[Thunk], device: Device, guess: Guess) -> StreamAssignment:
    """Put a program's thunks on the streams of a device."""
    planner = _StreamAssigner(device, guess)
    return StreamAssignment(planner.sequence(tuple(thunks)), planner.waits)


def compute_streams(device: Device) -> list[str]:
    """The names of a device's compute streams; one at least."""
    return [e.name for e in device.engines if e.kind == "compute"] or ["compute"]


class _StreamAssigner:
    def __init__(self, device: Device, guess: Guess) -> None:
        self.device = device
        self.guess = guess
        self.compute = compute_streams(device)
        self.waits: list[tuple[Thunk, Thunk]] = []
        self.sequences = 0

    def sequence(self, thunks: tuple[Thunk, ...], compute: Sequence[str] = ()) -> SequenceStreams:
        """`compute`: the streams for kernels; all where none are named."""
        compute = compute or self.compute
        before: list[list[int]] = [[] for _ in thunks]
        for a, b in execution_graph(thunks).edges:
            before[b].append(a)
        assigned = SequenceStreams(thunks, [], [], number=self.sequences)
        self.sequences += 1
        free = dict.fromkeys(compute, 0.0)
        last: dict[str, int] = {}
        ends: list[float] = []
        seen: list[dict[str, int]] = []
        for k, t in enumerate(thunks):
            open_at = {s: free[s] for s in compute}
            stream = self._stream(t, before[k], assigned.stream, open_at, ends)
            ready = max([ends[a] for a in before[k]], default=0.0)
            ends.append(max(ready, free.get(stream, 0.0)) + min(self.guess(t), 1e12))
            free[stream] = ends[k]
            assigned.stream.append(stream)
            assigned.waits.append(self._waits(assigned, k, before[k], seen, last))
            last[stream] = k
            if nested := t.nested():
                # What has begun apart stays on its stream, and leaves the others alone.
                own = [stream] if isinstance(t, AsyncStart) else compute
                assigned.inner[k] = tuple([self.sequence(n.thunks, own) for n in nested])
        return assigned

    def _stream(
        self,
        t: Thunk,
        before: list[int],
        streams: list[str],
        free: dict[str, float],
        ends: list[float],
    ) -> str:
        """Where a thunk could begin first; `free` has the compute streams that it may go to."""
        if isinstance(t, Copy):
            engine = copy_engine(self.device, *spaces(t))
            if engine is not None:
                return engine.name
        if isinstance(t, AmongDevices) and t.states():
            for engine in self.device.engines:
                if engine.kind == "communication":
                    return engine.name
        ready = max([ends[a] for a in before], default=0.0)
        last = streams[before[-1]] if before else ""
        return min(free, key=lambda s: (max(ready, free[s]), s != last))

    def _waits(
        self,
        assigned: SequenceStreams,
        k: int,
        before: list[int],
        seen: list[dict[str, int]],
        last: dict[str, int],
    ) -> list[Wait]:
        """The waits of thunk k that nothing implies. `seen[j]`: the last thunk of each stream that
        has ended for certain when thunk j has; `last`: the last thunk of each stream so far."""
        stream = assigned.stream[k]
        known = dict(seen[last[stream]]) if stream in last else {}
        waits: list[Wait] = []
        for a in sorted(before, reverse=True):
            if known.get(assigned.stream[a], -1) >= a:
                continue
            waits.append(Wait(len(self.waits), k, a))
            self.waits.append((assigned.thunks[k], assigned.thunks[a]))
            for s, j in seen[a].items():
                known[s] = max(known.get(s, -1), j)
        known[stream] = k
        seen.append(known)
        return waits


def spaces(t: Copy) -> tuple[int, int]:
    """The memory spaces that a copy reads and writes."""
    return t.source.allocation.space, t.target.allocation.space
