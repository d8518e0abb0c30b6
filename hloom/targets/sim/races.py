"""Finds two thunks that touch the same bytes, one of them writing, with nothing to order them.

Every stream counts what it has run; a clock says up to where each other one had come when a thunk
began, as far as waits and the order of streams tell. What was done before is safe if the clock has
it. This is the order that is written down, not that of the times, which may hide a mistake.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hloom.base.diagnostics import HloError
from hloom.program.slice import Allocation, BufferSlice
from hloom.program.thunks.thunk import Thunk, all_states, all_uses

Clock = dict[int, int]
"""By the number of a stream in its sequence and on its device: how many thunks it has ended."""


def merge(clock: Clock, other: Clock) -> None:
    """Let a clock know what another one knows."""
    for stream, count in other.items():
        if clock.get(stream, 0) < count:
            clock[stream] = count


class RaceError(HloError):
    """Two thunks use the same memory, and nothing says which is first."""


class _Access(NamedTuple):
    count: int
    thunk: Thunk


class RaceChecker:
    """What was read and written, and by whom, on all devices."""

    def __init__(self) -> None:
        self._done: dict[tuple[int, object], dict[tuple[int, int, int, bool], _Access]] = {}
        self._touched: dict[Thunk, list[tuple[object, BufferSlice, bool]]] = {}

    def record(self, device: int, thunk: Thunk, stream: int, clock: Clock) -> None:
        """Note all that a thunk touches, when it has ended; `clock` counts it already."""
        for key, place, writes in self._places(thunk):
            self._touch(device, thunk, stream, clock, key, place, writes)

    def _places(self, thunk: Thunk) -> Iterable[tuple[object, BufferSlice, bool]]:
        if (known := self._touched.get(thunk)) is not None:
            return known
        places: list[tuple[object, BufferSlice, bool]] = [
            (u.slice.allocation.index, u.slice, u.writes)
            for u in dict.fromkeys(all_uses(thunk))
            if u.slice.size_bytes and not u.slice.allocation.is_read_only
        ]
        for state in all_states(thunk):
            places.append((state, BufferSlice(Allocation(-1, 1, "temp"), 0, 1), True))
        self._touched[thunk] = places
        return places

    def _touch(
        self,
        device: int,
        thunk: Thunk,
        stream: int,
        clock: Clock,
        key: object,
        place: BufferSlice,
        writes: bool,
    ) -> None:
        done = self._done.setdefault((device, key), {})
        start, end = place.offset, place.end
        covered = []
        for (first, last, other, wrote), access in done.items():
            if first >= end or start >= last or not (writes or wrote):
                continue
            if clock.get(other, 0) < access.count and access.thunk is not thunk:
                raise _race(thunk, writes, access.thunk, wrote, place, max(first, start), key)
            if writes and start <= first and last <= end:
                covered.append((first, last, other, wrote))
        for old in covered:
            del done[old]
        done[start, end, stream, writes] = _Access(clock.get(stream, 0), thunk)


def _race(
    thunk: Thunk,
    writes: bool,
    other: Thunk,
    wrote: bool,
    place: BufferSlice,
    start: int,
    key: object,
) -> RaceError:
    verbs = [("writes" if w else "reads") for w in (writes, wrote)]
    if isinstance(key, str):
        what = f"the {key}"
    else:
        space = f" in S({place.allocation.space})" if place.allocation.space else ""
        what = f"bytes from {start} on of {place}{space}"
    return RaceError(
        f"%{thunk.name} {verbs[0]} {what}, which %{other.name} {verbs[1]}, and neither waits for "
        "the other",
        instruction=f"%{thunk.name}",
        rule="race",
        hint="a wait between the two is missing",
    )
