"""Copies of a step's buffers with guards around them, to catch what is out of bounds."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from hloom.program.slice import ALIGNMENT, BufferSlice
from hloom.program.thunks.thunk import Thunk

GUARD_BYTES = 256
"""On each side: more than the widest vector."""
FILLING = 0xFF
"""In every float type a NaN, so that what is read out of bounds is seen, too."""


class Region:
    """Some bytes of an allocation, copied to a place with guards; `finish` copies them back."""

    def __init__(self, uses: list[tuple[BufferSlice, bool]], address: int) -> None:
        first = min(s.offset for s, _ in uses)
        end = max(s.end for s, _ in uses)
        self.allocation, self.start, self.size = uses[0][0].allocation.index, first, end - first
        self.original = address
        space = np.full(self.size + 2 * GUARD_BYTES + ALIGNMENT, FILLING, np.uint8)
        skew = -space.ctypes.data % ALIGNMENT
        self._space = space[skew : skew + self.size + 2 * GUARD_BYTES]
        self.bytes = self._space[GUARD_BYTES : GUARD_BYTES + self.size]
        self._original = _bytes(address, self.size)
        self.bytes[:] = self._original
        # What is only read may not change, not even within bounds.
        self._writable = np.zeros(self.size, bool)
        for s, writes in uses:
            if writes:
                self._writable[s.offset - first : s.end - first] = True

    def holds(self, s: BufferSlice) -> bool:
        """Whether a slice is part of it."""
        inside = self.start <= s.offset and s.end <= self.start + self.size
        return s.allocation.index == self.allocation and inside

    def address_of(self, s: BufferSlice) -> int:
        """Where the copy of a slice stands."""
        return self.bytes.ctypes.data + s.offset - self.start

    def finish(self) -> str | None:
        """Copy back what was written; a sentence if something else was."""
        where = f"allocation {self.allocation}"
        before, after = self._space[:GUARD_BYTES], self._space[GUARD_BYTES + self.size :]
        if (at := np.flatnonzero(before != FILLING)).size:
            return f"wrote {GUARD_BYTES - int(at[0])} bytes before {where} offset {self.start}"
        if (at := np.flatnonzero(after != FILLING)).size:
            return f"wrote {int(at[-1]) + 1} bytes behind {where} offset {self.start + self.size}"
        changed = (self.bytes != self._original) & ~self._writable
        if changed.any():
            at = int(np.flatnonzero(changed)[0])
            return f"wrote at {where} offset {self.start + at}, which it only reads"
        self._original[self._writable] = self.bytes[self._writable]
        return None


def regions_of(t: Thunk, address_of: Callable[[BufferSlice], int]) -> list[Region]:
    """The regions of what a step uses; slices that overlap are in one."""
    uses = [(u.slice, u.writes) for u in t.uses() if u.slice.size_bytes]
    uses.sort(key=lambda u: (u[0].allocation.index, u[0].offset))
    groups: list[list[tuple[BufferSlice, bool]]] = []
    end = 0
    for s, writes in uses:
        last = groups[-1][-1][0] if groups else None
        if last is not None and last.allocation.index == s.allocation.index and s.offset < end:
            groups[-1].append((s, writes))
            end = max(end, s.end)
        else:
            groups.append([(s, writes)])
            end = s.end
    return [Region(group, address_of(group[0][0])) for group in groups]


def _bytes(address: int, size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)
