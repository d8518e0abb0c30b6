"""One of the many forms that vectors may have, as native code chooses it for calls with `settled`.

The largest element of each vector is real and positive, and in the blocks of two rows of a real
Schur form the number above the diagonal is the larger one (`runtime/native/free_signs.h`). Without
the attribute signs and phases are those of LAPACK, or others: rounding decides.
"""

from __future__ import annotations

import numpy as np

from hloom.interp.elementwise_number import Array

CLEARLY_SMALLER = 1 - 1 / 64
"""Numbers of equal size must not be told apart by rounding."""


def phases(vectors: Array) -> Array:
    """Of each column the phase of its largest element, the first of those of about that size."""
    if not vectors.size:
        return np.ones(vectors.shape[-1], vectors.dtype)
    sizes = np.abs(vectors)
    first = np.argmax(sizes >= CLEARLY_SMALLER * sizes.max(axis=0), axis=0)
    largest = vectors[first, np.arange(len(first))]
    size = np.abs(largest)
    return np.where(size > 0, largest / np.where(size > 0, size, 1), 1).astype(vectors.dtype)


def settled_columns(vectors: Array) -> Array:
    """Vectors that are columns."""
    return vectors * np.conj(phases(vectors))


def settled_singular(u: Array, v: Array) -> tuple[Array, Array]:
    """Left vectors as columns and right ones as rows, as many as there are of both."""
    few = min(u.shape[1], v.shape[0])
    u, v = u.copy(), v.copy()
    phase = phases(u[:, :few])
    u[:, :few] *= np.conj(phase)
    v[:few] *= phase[:, None]
    return u, v


def settled_schur(t: Array, z: Array) -> tuple[Array, Array]:
    """t and z with a = z t z*."""
    t, z = t.copy(), z.copy()
    for k in np.flatnonzero(np.diag(t, -1)) if not np.iscomplexobj(t) else ():
        if abs(t[k, k + 1]) < CLEARLY_SMALLER * abs(t[k + 1, k]):
            pair = slice(k, k + 2)
            turn = np.array([[0, -1], [1, 0]], t.dtype)
            t[pair, k:] = turn.T @ t[pair, k:]
            t[: k + 2, pair] = t[: k + 2, pair] @ turn
            z[:, pair] = z[:, pair] @ turn
    phase, own = phases(z), np.diag(t).copy()
    t = t * np.conj(phase) * phase[:, None]
    np.fill_diagonal(t, own)
    return t, z * np.conj(phase)
