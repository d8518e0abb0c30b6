"""Copies of a step's buffers in guarded memory (native/guard.cc), to catch what is out of bounds.

A margin on each side may be written: the step is then named by an error. What goes further ends the
process with a message, as all that is out of bounds does under HLOOM_GUARD (native/execution.cc).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from hloom.program.slice import ALIGNMENT, BufferSlice
from hloom.program.thunks.thunk import Thunk
from hloom.runtime.library import allocated, library

GUARD_BYTES = 256
"""On each side: more than the widest vector."""


class GuardedCopy:
    """Some bytes of an allocation, copied to between guards; `finish` copies them back."""

    def __init__(self, uses: list[tuple[BufferSlice, bool]], address: int) -> None:
        first = min(s.offset for s, _ in uses)
        end = max(s.end for s, _ in uses)
        self.allocation, self.start, self.size = uses[0][0].allocation.index, first, end - first
        self.original = address
        block = library().hl_guard_alloc(self.size, ALIGNMENT, GUARD_BYTES)
        self._address = allocated(block, "a guarded copy of a buffer")
        self.bytes = _bytes(self._address, self.size)
        self._original = _bytes(address, self.size)
        self.bytes[:] = self._original
        # What is only read may not change, not even within bounds.
        self._writable = np.zeros(self.size, bool)
        for s, writes in uses:
            if writes:
                self._writable[s.offset - first : s.end - first] = True

    def __del__(self) -> None:
        if address := getattr(self, "_address", 0):
            library().hl_guard_free(address)

    def holds(self, s: BufferSlice) -> bool:
        """Whether a slice is part of it."""
        inside = self.start <= s.offset and s.end <= self.start + self.size
        return s.allocation.index == self.allocation and inside

    def address_of(self, s: BufferSlice) -> int:
        """Where the copy of a slice stands."""
        return self._address + s.offset - self.start

    def finish(self) -> str | None:
        """Copy back what was written; a sentence if something else was."""
        where = f"allocation {self.allocation}"
        stray = library().hl_guard_stray(self._address)
        if stray < 0:
            return f"wrote {-stray} bytes before {where} offset {self.start}"
        if stray > 0:
            return f"wrote {stray} bytes behind {where} offset {self.start + self.size}"
        changed = (self.bytes != self._original) & ~self._writable
        if changed.any():
            at = int(np.flatnonzero(changed)[0])
            return f"wrote at {where} offset {self.start + at}, which it only reads"
        self._original[self._writable] = self.bytes[self._writable]
        return None


def guarded_copies(t: Thunk, address_of: Callable[[BufferSlice], int]) -> list[GuardedCopy]:
    """Of what a step uses; slices that overlap are in one."""
    # A loop as one kernel says that it writes all of its state, arguments that never change too.
    uses = [
        (u.slice, u.writes and not u.slice.allocation.is_read_only)
        for u in t.uses()
        if u.slice.size_bytes
    ]
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
    return [GuardedCopy(group, address_of(group[0][0])) for group in groups]


def _bytes(address: int, size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)
