"""What Fourier transforms of a C library need: plans of lengths, working memory.

A plan holds what is known of a length before any data (runtime/native/fft_plan.h). The runtime
makes it at the first call and keeps it; a library has it as constants. Which plans a transform asks
for, and how much memory it takes, are said here as runtime/native/fft.cc does it on one thread.
"""

from __future__ import annotations

from functools import cache
from math import isqrt, prod
from typing import NamedTuple

from hloom.program.slice import ALIGNMENT
from hloom.program.thunks.fft import FFT
from hloom.program.thunks.routine import Numbers

MOST_RADIX, MOST_TILE_CONVOLUTION = 127, 4096
"""The largest prime factor that has passes; the longest convolution whose rows share a tile."""
POINT_COSTS = ((7, 44), (5, 32), (3, 22), (2, 12))
"""Of a point, for each factor of a convolution's length."""
MOST_PASSES, LEAST_STEPS, MOST_ROWS = 4096, 64, 4096
"""Up to which length there are passes; from which on two steps; up to which rows share tiles."""
GROUP, LEAST_GROUP = 1 << 18, 64
"""Of rows of reals that are packed together: points, and rows."""
VECTOR_BYTES = 64
"""Of the widest vectors."""
REAL, REAL_INVERSE = 2, 3
"""Kinds of transforms (fft.h)."""


class FftLength(NamedTuple):
    """How a length is transformed."""

    n: int
    has_passes: bool
    n1: int
    """n = n1 * n2, where it is done in two steps; else 0."""
    n2: int
    convolution: int
    """The length of the convolution that it is done as; 0: it has small factors."""

    @property
    def by_tiles(self) -> bool:
        """Whether rows share a tile."""
        return self.has_passes or self.n == 1 or 0 < self.convolution <= MOST_TILE_CONVOLUTION


@cache
def fft_length(n: int) -> FftLength:
    """How a length is transformed (fft_plan.cc)."""
    rest = n
    for p in range(2, MOST_RADIX + 1):
        while rest % p == 0:
            rest //= p
    if rest != 1:
        return FftLength(n, False, 0, 0, _convolution_length(2 * n - 1))
    middle = next((d for d in range(isqrt(n), 1, -1) if n % d == 0), 1)
    in_steps = n >= LEAST_STEPS and middle >= 4
    has_passes = n > 1 and (n <= MOST_PASSES or middle < 4)
    n1 = middle if in_steps else 0
    return FftLength(n, has_passes, n1, n // n1 if n1 else 0, 0)


def _point_cost(n: int) -> int:
    """What a point costs in the passes of a length with factors of at most 7."""
    cost = 0
    for p, of_one in POINT_COSTS:
        while n % p == 0:
            n, cost = n // p, cost + of_one
    return cost


def _convolution_length(least: int) -> int:
    """The cheapest length of a cyclic convolution of at least so many points (fft_plan.cc)."""
    best = most = 1 << (least - 1).bit_length()
    for odd in sorted(
        {7**a * 5**b * 3**c for a in range(22) for b in range(27) for c in range(39)}
    ):
        if 8 * odd >= most:
            break
        n = 8 * odd
        while n < least:
            n *= 2
        if n < most and (n * _point_cost(n), n) < (best * _point_cost(best), best):
            best = n
    return best


def plan_lengths(t: FFT) -> set[tuple[int, bool]]:
    """Length, and whether of f64, of each plan that a transform asks for."""
    kind, is_double, lengths, _ = _parts(t)
    left = [*lengths[:-1], _packed(lengths[-1]) if kind >= REAL else lengths[-1]]
    if kind >= REAL and fft_length(left[-1]).has_passes and left[-1] % 2 == 1:
        left.append(left[-1] // _largest_factor(left[-1]))
    plans: set[tuple[int, bool]] = set()
    while left:
        p = fft_length(left.pop())
        if (p.n, is_double) not in plans:
            plans.add((p.n, is_double))
            left += [n for n in (p.n1, p.n2, p.convolution) if n]
    return plans


def _largest_factor(n: int) -> int:
    """The radix of the first pass of an odd length: its largest prime factor."""
    return next(p for p in range(MOST_RADIX, 1, -2) if n % p == 0 and _is_prime(p))


def _is_prime(p: int) -> bool:
    return all(p % d for d in range(3, isqrt(p) + 1, 2))


def fft_scratch_bytes(t: FFT) -> int:
    """Bytes of memory that a transform works in."""
    kind, is_double, lengths, batch = _parts(t)
    size = 8 if is_double else 4
    last = lengths[-1]
    rows = batch * prod(lengths[:-1])
    shown = last // 2 + 1 if kind >= REAL else last
    inner, most, outer = shown, 0, rows
    for n in reversed(lengths[:-1]):
        outer //= n
        most = max(most, _along(outer, n, inner, size))
        inner *= n
    copy = 2 * rows * shown if kind == REAL_INVERSE and len(lengths) > 1 else 1
    width = _packed(last)
    if kind == REAL:
        group = max(1, min(rows, max(LEAST_GROUP, GROUP // width)))
        most = max(most, _room(2 * width * group, size) + _along(group, width, 1, size))
    elif kind == REAL_INVERSE:
        full = _room(2 * last * rows, size) if width == last else 0
        most = max(most, full + _along(rows, width, 1, size))
    else:
        most = max(most, _along(rows, last, 1, size))
    return _room(copy, size) + most + ALIGNMENT


def _parts(t: FFT) -> tuple[int, bool, tuple[int, ...], int]:
    """Kind, whether of f64, lengths and how many there are."""
    kind, is_double, _, lengths, batch, *_ = t.arguments
    assert isinstance(kind, int) and isinstance(batch, int) and isinstance(lengths, Numbers)
    return kind, bool(is_double), lengths.values, batch


def _packed(n: int) -> int:
    """The length of the transform that one of `n` reals is done by."""
    return n // 2 if n % 2 == 0 and n > 1 else n


def _room(count: int, size: int) -> int:
    """Bytes of an array, where it may begin anywhere."""
    return max(count, 1) * size + ALIGNMENT


def _along(outer: int, n: int, inner: int, size: int) -> int:
    """Of transforms along the middle of [outer, n, inner]."""
    p = fft_length(n)
    tile = _room(4 * (p.convolution or n) * (VECTOR_BYTES // size), size)
    if inner > 1:
        return tile if p.by_tiles else 2 * _room(2 * n, size) + _row(n, size)
    if p.by_tiles and (not (p.n1 or p.convolution) or n <= MOST_ROWS):
        return max(tile, _row(n, size))
    return _row(n, size)


def _row(n: int, size: int) -> int:
    """Of the transform of one row."""
    p = fft_length(n)
    if p.convolution:
        return 2 * _room(2 * p.convolution, size) + _row(p.convolution, size)
    lanes = VECTOR_BYTES // size
    if p.n1 and fft_length(p.n1).by_tiles and fft_length(p.n2).by_tiles:
        return _room(2 * n, size) + _room(4 * p.n2 * lanes, size)
    if p.n1:
        return 2 * _room(2 * n, size) + max(_row(p.n1, size), _row(p.n2, size))
    return _room(4 * n * lanes, size)
