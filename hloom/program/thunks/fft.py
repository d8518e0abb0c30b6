"""Fourier transforms."""

from __future__ import annotations

from hloom.program.thunks.routine import Routine
from hloom.program.thunks.thunk import thunk_kind


@thunk_kind
class FFT(Routine):
    """Transform the innermost dimensions."""

    kind = "FFT"
