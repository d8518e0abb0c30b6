"""Eigenvalues, singular values and Schur forms of one matrix, in the form that LAPACK gives them.

Of vectors, length and largest component are LAPACK's; signs and phases are free, and in a Schur
form so is the order of the eigenvalues. `info` is not 0 where an iteration found no end, or the
matrix has infinities or NaNs; the values are NaN then.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import _umath_linalg as own  # pyright: ignore

from hloom.interp.elementwise_number import Array
from hloom.interp.linalg_factors import adjoint, gehrd, orgqr, reflector

# `own` lies below np.linalg, which computes everything in f64: signs in f32 are then others than
# those of LAPACK's routines for f32, which native code asks. A failure there gives NaNs.

NOT_FINITE = -4
"""What jaxlib gives as info for infinities and NaNs: argument 4 is wrong."""
MOST_ROUNDS = 60
"""Steps until one eigenvalue splits off; every tenth has an exceptional shift."""
EPSILON = float(np.finfo(np.float64).eps)


def heevd(a: Array, vectors: bool, lower: bool) -> tuple[Array, Array, int]:
    """(eigenvectors as columns, or `a` without them; eigenvalues, ascending; info)."""
    used = np.tril(a) if lower else np.triu(a)
    failed = np.full_like(a, np.nan), np.full(len(a), np.nan)
    if not np.isfinite(used).all():
        return *failed, NOT_FINITE
    values, columns = (own.eigh_lo if lower else own.eigh_up)(a)
    return columns if vectors else a, values, int(np.isnan(values).any())


def gesdd(a: Array, vectors: bool, full: bool) -> tuple[Array, Array | None, Array | None, int]:
    """(singular values, descending; left vectors as columns; right ones as rows, adjoined; info).

    Vectors are None where they are not wanted.
    """
    rows, columns = a.shape
    few = min(a.shape)
    info = 0 if np.isfinite(a).all() else NOT_FINITE
    if not info:
        u, s, v = (own.svd_f if full else own.svd_s)(a)
        return s, u if vectors else None, v if vectors else None, int(np.isnan(s).any())
    wide, high = (rows, columns) if full else (few, few)
    u, v = np.full((rows, wide), np.nan, a.dtype), np.full((high, columns), np.nan, a.dtype)
    return np.full(few, np.nan), u if vectors else None, v if vectors else None, info


def geev(a: Array, left: bool, right: bool) -> tuple[Array, Array, Array, int]:
    """(eigenvalues, left and right eigenvectors as columns, info); all of them complex.

    u* a = w u* of left ones. Vectors that are not wanted are zeros.
    """
    none = np.zeros(a.shape, np.complex128)
    failed = np.full(len(a), complex(np.nan, np.nan)), none * np.nan, none * np.nan
    if not np.isfinite(a).all():
        return *failed, NOT_FINITE
    values, columns = own.eig(a)
    others, adjoined = own.eig(adjoint(a)) if left else (values, none)
    if np.isnan(values).any() or np.isnan(others).any():
        return *failed, 1
    if not left:
        return values, none, columns if right else none, 0
    order = _nearest(values, np.conj(others))
    return values, adjoined[:, order], columns if right else none, 0


def _nearest(values: Array, others: Array) -> Array:
    """For each value which of the others it is: each is taken once, the surest pairs first."""
    distances = np.abs(values[:, None] - others[None, :])
    order = np.zeros(len(values), np.int64)
    for _ in values:
        k, other = np.unravel_index(np.argmin(distances), distances.shape)
        order[k] = other
        distances[k, :] = distances[:, other] = np.inf
    return order


# -- Schur forms


def gees(a: Array, vectors: bool) -> tuple[Array, Array, Array, int]:
    """(the Schur form t, the unitary z with a = z t z*, eigenvalues, info).

    Of a real matrix t has blocks of 2 x 2 for pairs of complex eigenvalues, each with one number
    twice on its diagonal and numbers of opposite signs beside it. Without vectors z is zeros.
    """
    size = len(a)
    if not np.isfinite(a).all():
        return a * np.nan, a * np.nan, np.full(size, complex(np.nan, np.nan)), NOT_FINITE
    packed, taus = gehrd(a, 1, size)
    t = np.triu(packed, -1)
    z = np.eye(size, dtype=a.dtype)
    if size > 1:
        z[1:, 1:] = orgqr(packed[1:, :-1], taus)
    info = (_complex_steps if np.iscomplexobj(a) else _real_steps)(t, z)
    values = np.diag(t).astype(np.complex128)
    for k in np.flatnonzero(np.diag(t, -1)) if not np.iscomplexobj(a) else ():
        turn = np.sqrt(abs(t[k, k + 1])) * np.sqrt(abs(t[k + 1, k]))
        values[k], values[k + 1] = values[k] + 1j * turn, values[k + 1] - 1j * turn
    return t, z if vectors else np.zeros_like(z), values, info


def _start(t: Array, high: int) -> int:
    """Where the last block that does not fall apart begins; what is negligible becomes zero."""
    for low in range(high, 0, -1):
        near = abs(t[low, low]) + abs(t[low - 1, low - 1])
        if abs(t[low, low - 1]) <= max(EPSILON * near, 1e-300):
            t[low, low - 1] = 0
            return low
    return 0


def _complex_steps(t: Array, z: Array) -> int:
    """Single shifts until t is triangular; how many rows are unfinished."""
    high, rounds = len(t) - 1, 0
    while high > 0:
        low = _start(t, high)
        if low == high:
            high, rounds = high - 1, 0
            continue
        rounds += 1
        if rounds > MOST_ROUNDS:
            return high + 1
        roots = np.linalg.eigvals(t[high - 1 : high + 1, high - 1 : high + 1])
        shift = roots[np.argmin(np.abs(roots - t[high, high]))]
        if rounds % 10 == 0:
            shift = t[high, high] + abs(t[high, high - 1])
        x = np.array([t[low, low] - shift, t[low + 1, low]])
        for k in range(low, high):
            if k > low:
                x = t[k : k + 2, k - 1].copy()
            _turn(t, z, k, x, max(low, k - 1))
            if k > low:
                t[k + 1, k - 1] = 0
    return 0


def _real_steps(t: Array, z: Array) -> int:
    """Francis' double shifts until t falls into blocks of 1 and 2; how many rows are unfinished."""
    high, rounds = len(t) - 1, 0
    while high > 0:
        low = _start(t, high)
        if low >= high - 1:
            if low == high - 1:
                _standardise(t, z, low)
            high, rounds = low - 1, 0
            continue
        rounds += 1
        if rounds > MOST_ROUNDS:
            return high + 1
        block = t[high - 1 : high + 1, high - 1 : high + 1]
        trace, determinant = np.trace(block), block[0, 0] * block[1, 1] - block[0, 1] * block[1, 0]
        if rounds % 10 == 0:
            size = abs(t[high, high - 1]) + abs(t[high - 1, high - 2])
            trace, determinant = 1.5 * size, size * size
        corner = t[low : low + 3, low : low + 2]
        x = corner @ corner[:2, 0] - trace * corner[:, 0]
        x[0] += determinant
        for k in range(low, high):
            if k > low:
                x = t[k : min(k + 3, high + 1), k - 1].copy()
            _turn(t, z, k, x, max(low, k - 1))
            if k > low:
                t[k + 1 : k + 3, k - 1][: len(x) - 1] = 0
    return 0


def _turn(t: Array, z: Array, k: int, x: Array, first: int) -> None:
    """t and z under the reflector of x on rows k, k + 1, ...; columns before `first` are zero."""
    _, rest, tau = reflector(x)
    v = np.concatenate([np.ones(1, x.dtype), rest])
    rows = slice(k, k + len(x))
    t[rows, first:] -= np.conj(tau) * np.outer(v, np.conj(v) @ t[rows, first:])
    for m in (t, z):
        m[:, rows] -= tau * np.outer(m[:, rows] @ v, np.conj(v))


def _standardise(t: Array, z: Array, k: int) -> None:
    """A rotation that makes the block at k triangular, or its diagonal equal."""
    (a, b), (c, d) = t[k : k + 2, k : k + 2]
    half = (a - d) / 2
    discriminant = half * half + b * c
    if (
        discriminant >= 0
    ):  # x, the eigenvector of one of two real eigenvalues, becomes the first axis
        x = np.array([half + np.copysign(np.sqrt(discriminant), half), c])
    elif a == d:
        return
    else:  # the angle at which both diagonal elements are their mean
        angle = 0.5 * np.arctan2(a - d, b + c)
        x = np.array([np.cos(angle), -np.sin(angle)])
    cosine, sine = x / np.hypot(*x)
    turn = np.array([[cosine, -sine], [sine, cosine]])
    rows = slice(k, k + 2)
    t[rows, k:] = turn.T @ t[rows, k:]
    t[: k + 2, rows] = t[: k + 2, rows] @ turn
    z[:, rows] = z[:, rows] @ turn
    if discriminant >= 0:
        t[k + 1, k] = 0
    else:
        t[k, k] = t[k + 1, k + 1] = (a + d) / 2
