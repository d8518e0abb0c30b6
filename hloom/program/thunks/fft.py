"""Fourier transforms."""

from __future__ import annotations

from math import log2, prod

from hloom.program.thunks.routine import Numbers, Routine
from hloom.program.thunks.thunk import Rates, thunk_kind

PART_BYTES = 1 << 18
"""Of the result, which one thread takes at a time: rows, or pieces of a long one (fft.cc)."""
LARGEST_PRIME = 13
"""Lengths with a larger prime factor go through two transforms of a longer one (fft_plan.cc)."""


@thunk_kind
class FFT(Routine):
    """Transform the innermost dimensions."""

    kind = "FFT"

    def serial_ns(self, rates: Rates) -> float:
        lengths = next(x for x in self.arguments if isinstance(x, Numbers)).values
        of_all = max([u.slice.size_bytes for u in self.uses()], default=0)
        levels = max(log2(max(prod(lengths), 1)), 1.0)
        longer = 1.0 if all(_has_small_primes(n) for n in lengths) else rates.fft_detour
        moved = sum([s.size_bytes for s in self.writes]) * rates.copy_byte_ns
        return of_all * levels * rates.fft_byte_ns * longer + moved

    def parts(self) -> int:
        return max(1, sum([s.size_bytes for s in self.writes]) // PART_BYTES)


def _has_small_primes(n: int) -> bool:
    for p in range(2, LARGEST_PRIME + 1):
        while n > 1 and n % p == 0:
            n //= p
    return n <= 1
