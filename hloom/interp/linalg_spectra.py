"""Eigenvalues, singular values and Schur forms of one matrix, in the form that LAPACK gives them.

Of vectors, length and largest component are LAPACK's; signs and phases are free
(`linalg_free_signs.py`). `info` is not 0 where an iteration found no end, or the matrix has
infinities or NaNs; the values are NaN then.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import _umath_linalg as own  # pyright: ignore

from hloom.interp.elementwise_number import Array
from hloom.interp.linalg_factors import adjoint
from hloom.interp.linalg_schur import schur_form

# `own` lies below np.linalg, which computes everything in f64: signs in f32 are then others than
# those of LAPACK's routines for f32, which native code asks. A failure there gives NaNs.

NOT_FINITE = -4
"""What jaxlib gives as info for infinities and NaNs: argument 4 is wrong."""


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
    if a.dtype == np.complex64:  # which numpy computes in c128, and finds them in another order
        order = _nearest(schur_form(a)[2], values)
        values, columns = values[order], columns[:, order]
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


def gees(a: Array) -> tuple[Array, Array, Array, int]:
    """(the Schur form t, the unitary z with a = z t z*, eigenvalues, info).

    Of a real matrix t has blocks of 2 x 2 for pairs of complex eigenvalues, each with one number
    twice on its diagonal and numbers of opposite signs beside it.
    """
    if not np.isfinite(a).all():
        return a * np.nan, a * np.nan, np.full(len(a), complex(np.nan, np.nan)), NOT_FINITE
    return schur_form(a)
