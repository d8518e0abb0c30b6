"""Fourier transforms."""

from __future__ import annotations

from hloom.program.thunks.routine import Routine
from hloom.program.thunks.thunk import thunk_kind

PART_BYTES = 1 << 18
"""Of the result, which one thread takes at a time: rows, or pieces of a long one."""


@thunk_kind
class FFT(Routine):
    """Transform the innermost dimensions."""

    kind = "FFT"

    def parts(self) -> int:
        return max(1, sum([s.size_bytes for s in self.writes]) // PART_BYTES)
