"""Schur forms by shifted QR steps, with the eigenvalues in the order that LAPACK gives them.

A Schur form is not unique. The order of its eigenvalues is that in which they split off, so the
steps here are those of LAPACK for small matrices (`dlahqr`, `zlahqr`: which shifts, when a row is
split off), in the precision of the matrix; rows and columns of which an eigenvalue can be read are
exchanged to the ends first (`gebal`). Signs and phases are free (`linalg_free_signs.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from hloom.interp.elementwise_number import Array
from hloom.interp.linalg_factors import gehrd, orgqr, reflector, size1

EXCEPTIONAL = 10
"""Steps without a row that splits off, after which another shift is taken."""


def schur_form(a: Array) -> tuple[Array, Array, Array, int]:
    """(t, z with a = z t z*, the eigenvalues, how many rows are unfinished) of a finite matrix."""
    size = len(a)
    t, exchanges, low, high = _balanced(a)
    packed, taus = gehrd(t, low + 1, max(high, low) + 1)
    t = np.triu(packed, -1).astype(a.dtype)
    z = np.eye(size, dtype=a.dtype)
    if high > low:
        inside = slice(low + 1, high + 1)
        z[inside, inside] = orgqr(packed[inside, low:high], taus[low:high])
    form = (_Complex if np.iscomplexobj(a) else _Real)(t, z, low, high)
    unfinished = form.run()
    for k, other in reversed(exchanges):
        z[[k, other]] = z[[other, k]]
    return t, z, form.values(), unfinished


def _balanced(a: Array) -> tuple[Array, list[tuple[int, int]], int, int]:
    """The matrix with rows and columns exchanged, these, and the first and last row of what is not
    triangular yet."""
    t, exchanges = a.copy(), []
    low, high = 0, len(a) - 1

    def exchange(k: int, other: int) -> None:
        exchanges.append((k, other))
        t[: high + 1, [k, other]] = t[: high + 1, [other, k]]
        t[[k, other], low:] = t[[other, k], low:]

    again = len(a) > 0
    while again:
        again = False
        for k in reversed(range(high + 1)):
            if k <= high and not np.delete(t[k, : high + 1], k).any():
                exchange(high, k)
                if high == 0:
                    return t, exchanges, 0, 0
                high, again = high - 1, True
    again = len(a) > 0
    while again:
        again = False
        for k in range(low, high + 1):
            if k >= low and not np.delete(t[low : high + 1, k], k - low).any():
                exchange(low, k)
                low, again = low + 1, True
    return t, exchanges, low, high


class _Steps(ABC):
    """QR steps on the Hessenberg matrix t from row `low` to `high`; z takes what turns it."""

    most_rows = 1
    """Of a block of the result."""

    def __init__(self, t: Array, z: Array, low: int, high: int) -> None:
        self.t, self.z, self.low, self.high = t, z, low, high
        limits = np.finfo(t.dtype)
        self.ulp = limits.eps
        self.small = limits.tiny * ((high - low + 1) / self.ulp)
        self.rounds = 0
        """Steps since a row split off."""

    def run(self) -> int:
        """Make t the Schur form; how many rows are unfinished."""
        end, most = self.high, 30 * max(10, self.high - self.low + 1)
        self.prepare()
        while end >= self.low:
            first = self.low
            for _ in range(most + 1):
                first = self.start(first, end)
                if first > self.low:
                    self.t[first, first - 1] = 0
                if first > end - self.most_rows:
                    break
                self.rounds += 1
                self.step(first, end)
            else:
                return end + 1
            if first < end:
                self.split(end)
            end, self.rounds = first - 1, 0
        return 0

    def prepare(self) -> None:
        """Bring t into the form that steps keep; as it stands, here."""
        return

    def split(self, end: int) -> None:
        """Standardise a block of two rows, the last of which is `end`; there is none, here."""
        return

    @abstractmethod
    def step(self, first: int, end: int) -> None:
        """One QR step on the rows from `first` to `end`."""

    def start(self, first: int, end: int) -> int:
        """The first row of the block at the end that does not fall apart."""
        t = self.t
        for k in range(end, first, -1):
            below, above = size1(t[k, k - 1]), size1(t[k - 1, k])
            if below <= self.small:
                return k
            near = size1(t[k - 1, k - 1]) + size1(t[k, k])
            if near == 0:
                near += abs(t[k - 1, k - 2].real) if k - 2 >= self.low else 0
                near += abs(t[k + 1, k].real) if k + 1 <= self.high else 0
            if abs(t[k, k - 1].real) <= self.ulp * near:
                apart = size1(t[k - 1, k - 1] - t[k, k])
                large, little = max(size1(t[k, k]), apart), min(size1(t[k, k]), apart)
                wide, narrow = max(below, above), min(below, above)
                scale = large + wide
                if narrow * (wide / scale) <= max(
                    self.small, self.ulp * (little * (large / scale))
                ):
                    return k
        return first

    def turn(self, k: int, x: Array, first: int, last: int) -> tuple[complex, complex]:
        """t and z under the reflector of x on the rows from k on; it, and x under it.

        Rows from column `first` on, and columns to row `last`, are others than zero.
        """
        t, z = self.t, self.z
        beta, rest, tau = reflector(x)
        v = np.concatenate([np.ones(1, x.dtype), rest]).astype(t.dtype)
        rows, tau = slice(k, k + len(x)), t.dtype.type(tau)
        t[rows, first:] -= np.conj(tau) * np.outer(v, np.conj(v) @ t[rows, first:])
        t[: last + 1, rows] -= tau * np.outer(t[: last + 1, rows] @ v, np.conj(v))
        z[:, rows] -= tau * np.outer(z[:, rows] @ v, np.conj(v))
        return tau, beta

    def values(self) -> Array:
        """The eigenvalues, in the order of the diagonal."""
        return np.diag(self.t).astype(np.complex128)


class _Real(_Steps):
    """Francis' double shifts until t falls into blocks of one and two rows."""

    most_rows = 2

    def step(self, first: int, end: int) -> None:
        t = self.t
        one, two = self.shifts(first, end)
        m, x = self.begin(first, end, one, two)
        for k in range(m, end):
            count = min(3, end - k + 1)
            if k > m:
                x = t[k : k + count, k - 1].copy()
            tau, beta = self.turn(k, x[:count], k, min(k + 3, end))
            if k > m:
                t[k : k + count, k - 1] = 0
                t[k, k - 1] = beta
            elif m > first:
                t[k, k - 1] *= 1 - tau

    def shifts(self, first: int, end: int) -> tuple[complex, complex]:
        """Two numbers near eigenvalues: conjugates, or one real number twice."""
        t, kind = self.t, self.t.dtype.type
        block = t[end - 1 : end + 1, end - 1 : end + 1].astype(t.dtype)
        if self.rounds % EXCEPTIONAL == 0:
            at_end = self.rounds % (2 * EXCEPTIONAL) == 0
            k = end if at_end else first
            rows = (end, end - 1) if at_end else (first + 1, first + 2)
            s = sum(abs(t[row, row - 1]) for row in rows)
            block = np.array([[0.75 * s + t[k, k], -0.4375 * s], [s, 0.75 * s + t[k, k]]], t.dtype)
        scale = np.abs(block).sum()
        if scale == 0:
            return 0.0, 0.0
        (a, b), (c, d) = block / scale
        mean = (a + d) / kind(2)
        determinant = (a - mean) * (d - mean) - b * c
        root = np.sqrt(abs(determinant))
        if determinant >= 0:
            shift = complex(mean * scale, root * scale)
            return shift, shift.conjugate()
        near = min((mean + root, mean - root), key=lambda x: abs(x - d))
        return near * scale, near * scale

    def begin(self, first: int, end: int, one: complex, two: complex) -> tuple[int, Array]:
        """Where a step may begin, between two small elements or at `first`, and with what."""
        t = self.t
        m, v = first, np.zeros(3, t.dtype)
        for m in range(end - 2, first - 1, -1):
            low = t[m + 1, m]
            s = abs(t[m, m] - two.real) + abs(two.imag) + abs(low)
            low = low / s
            v[0] = low * t[m, m + 1] - one.imag * (two.imag / s)
            v[0] += (t[m, m] - one.real) * ((t[m, m] - two.real) / s)
            v[1] = low * (t[m, m] + t[m + 1, m + 1] - one.real - two.real)
            v[2] = low * t[m + 2, m + 1]
            v /= np.abs(v).sum()
            if m > first:
                near = abs(t[m - 1, m - 1]) + abs(t[m, m]) + abs(t[m + 1, m + 1])
                beside = abs(t[m, m - 1]) * (abs(v[1]) + abs(v[2]))
                if beside <= self.ulp * abs(v[0]) * near:
                    break
        return m, v

    def split(self, end: int) -> None:
        """A rotation that makes the block triangular, or its diagonal equal (`dlanv2`)."""
        t, k = self.t, end - 1
        block = t[k : end + 1, k : end + 1]
        cosine, sine = standardised(block)
        for m in (t[k : end + 1, end + 1 :].T, t[:k, k : end + 1], self.z[:, k : end + 1]):
            m[:] = m @ np.array([[cosine, -sine], [sine, cosine]], t.dtype)

    def values(self) -> Array:
        values = super().values()
        for k in np.flatnonzero(np.diag(self.t, -1)):
            turn = np.sqrt(abs(self.t[k, k + 1])) * np.sqrt(abs(self.t[k + 1, k]))
            values[k], values[k + 1] = values[k] + 1j * turn, values[k + 1] - 1j * turn
        return values


def standardised(block: Array) -> tuple[float, float]:
    """Turn a real block of 2 x 2 by the cosine and sine that are returned: it becomes triangular,
    or has one number on its diagonal and numbers of opposite signs beside it."""
    (a, b), (c, d) = block.astype(np.float64)
    ulp = np.finfo(block.dtype).eps
    if c == 0:
        return 1.0, 0.0
    if b == 0:
        block[:] = [[d, -c], [0, a]]
        return 0.0, 1.0
    if a == d and (b > 0) != (c > 0):
        return 1.0, 0.0
    half = (a - d) / 2
    most, sign = max(abs(b), abs(c)), np.sign(b) * np.sign(c)
    least = min(abs(b), abs(c)) * sign
    scale = max(abs(half), most)
    discriminant = half / scale * half + most / scale * least
    if discriminant >= 4 * ulp:  # two real eigenvalues
        root = half + np.copysign(np.sqrt(scale) * np.sqrt(discriminant), half)
        length = np.hypot(c, root)
        block[:] = [[d + root, b - c], [0, d - most / root * least]]
        return root / length, c / length
    sigma = b + c
    length = np.hypot(sigma, a - d)
    cosine = np.sqrt(0.5 * (1 + abs(sigma) / length))
    sine = -(half / (length * cosine)) * np.copysign(1.0, sigma)
    turn = np.array([[cosine, -sine], [sine, cosine]])
    (a, b), (c, d) = turn.T @ np.array([[a, b], [c, d]]) @ turn
    a = d = (a + d) / 2
    if c != 0 and b == 0:
        b, c, cosine, sine = -c, 0.0, -sine, cosine
    elif c != 0 and (b > 0) == (c > 0):  # real after all
        by, of = np.sqrt(abs(b)), np.sqrt(abs(c))
        apart, length = np.copysign(by * of, c), 1 / np.sqrt(abs(b + c))
        a, d, b, c = a + apart, d - apart, b - c, 0.0
        one, other = by * length, of * length
        cosine, sine = cosine * one - sine * other, cosine * other + sine * one
    block[:] = [[a, b], [c, d]]
    return cosine, sine


class _Complex(_Steps):
    """Single shifts until t is triangular; elements below its diagonal are kept real."""

    def prepare(self) -> None:
        for k in range(self.low + 1, self.high + 1):
            below = self.t[k, k - 1]
            if below.imag != 0:
                self.phase(k, np.conj(below) / abs(below), min(self.high, k + 1))
                self.t[k, k - 1] = abs(below)

    def phase(self, k: int, by: complex, last: int) -> None:
        """Row k from its diagonal on times a phase, column k to row `last` by its inverse."""
        self.t[k, k:] *= by
        self.t[: last + 1, k] *= np.conj(by)
        self.z[:, k] *= np.conj(by)

    def step(self, first: int, end: int) -> None:
        t, shift = self.t, self.shift(first, end)
        m, x = first, np.zeros(2, t.dtype)
        for m in range(end - 1, first - 1, -1):
            gap, below = t[m, m] - shift, t[m + 1, m].real
            scale = size1(gap) + abs(below)
            gap, below = gap / scale, below / scale
            x[:] = gap, below
            if m > first:
                near = size1(t[m, m]) + size1(t[m + 1, m + 1])
                if abs(t[m, m - 1].real) * abs(below) <= self.ulp * (size1(gap) * near):
                    break
        for k in range(m, end):
            if k > m:
                x = t[k : k + 2, k - 1].copy()
            tau, beta = self.turn(k, x, k, min(k + 2, end))
            if k > m:
                t[k, k - 1], t[k + 1, k - 1] = beta, 0
            elif m > first:  # the elements below the diagonal become real again
                self.restore(m, end, 1 - tau)
        below = t[end, end - 1]
        if below.imag != 0:
            by = below / abs(below)
            t[end, end - 1] = abs(below)
            t[end, end + 1 :] *= np.conj(by)
            t[:end, end] *= by
            self.z[:, end] *= by

    def restore(self, m: int, end: int, by: complex) -> None:
        """Take a phase that a step which began at row m, not at the first, brought in out again."""
        t, by = self.t, by / abs(by)
        t[m + 1, m] *= np.conj(by)
        if m + 2 <= end:
            t[m + 2, m + 1] *= by
        for j in range(m, end + 1):
            if j != m + 1:
                t[j, j + 1 :] *= by
                t[:j, j] *= np.conj(by)
                self.z[:, j] *= np.conj(by)

    def shift(self, first: int, end: int) -> complex:
        """Of the last block's two eigenvalues the one nearest to its last element (Wilkinson)."""
        t = self.t
        if self.rounds % (2 * EXCEPTIONAL) == 0:
            return 0.75 * abs(t[end, end - 1].real) + t[end, end]
        if self.rounds % EXCEPTIONAL == 0:
            return 0.75 * abs(t[first + 1, first].real) + t[first, first]
        last = t[end, end]
        u = np.sqrt(t[end - 1, end]) * np.sqrt(t[end, end - 1])
        scale = size1(u)
        if scale == 0:
            return last
        x = (t[end - 1, end - 1] - last) / 2
        scale = max(scale, size1(x))
        y = scale * np.sqrt((x / scale) ** 2 + (u / scale) ** 2)
        if size1(x) > 0 and (np.conj(x) * y).real < 0:
            y = -y
        return last - u * (u / (x + y))
