"""Factorisations of one matrix with LAPACK's conventions: what is packed where, which signs.

Unblocked and in double precision, so that they are short and can be read. A *reflector* is
H = 1 - tau v v*, with v = (1, rest), and H* x = (beta, 0, ...): beta has the sign opposite to that
of x[0]. Packed, beta stands where x[0] was and the rest of v below it (LAPACK's larfg).
"""

from __future__ import annotations

import numpy as np

from hloom.interp.elementwise_number import Array


def reflector(x: Array) -> tuple[float, Array, complex]:
    """(beta, the rest of v, tau) of the reflector that takes x to (beta, 0, ...)."""
    alpha, rest = x[0], x[1:]
    largest = np.max(np.abs(x))
    if alpha.imag == 0 and not rest.any():
        return alpha.real, rest, 0.0
    length = np.linalg.norm(x / largest) * largest
    beta = -np.copysign(length, alpha.real)
    return beta, rest / (alpha - beta), (beta - alpha) / beta


def size1(x: Array) -> Array:
    """|real| + |imaginary|, by which LAPACK compares complex numbers."""
    return np.abs(x.real) + np.abs(x.imag)


def adjoint(x: Array) -> Array:
    return np.conj(x.T)


def _reflect(a: Array, v: Array, tau: complex) -> None:
    """a becomes (1 - tau v v*) a."""
    a -= tau * np.outer(v, np.conj(v) @ a)


def _unit(rest: Array) -> Array:
    return np.concatenate([np.ones(1, rest.dtype), rest])


# -- triangles


def potrf(a: Array, lower: bool) -> tuple[Array, int]:
    """(a with the factor in its triangle, the other one kept; info).

    Info is the order of the first leading minor that is not positive, from where the triangle is
    not finished; or 0.
    """
    factor = a.copy() if lower else adjoint(a)
    info = 0
    for k in range(len(a)):
        row = factor[k, :k]
        pivot = factor[k, k].real - np.sum(np.abs(row) ** 2)
        factor[k, k] = pivot
        if not pivot > 0:
            info = k + 1
            break
        factor[k, k] = root = np.sqrt(pivot)
        below = factor[k + 1 :, :k] @ np.conj(row)
        factor[k + 1 :, k] = (factor[k + 1 :, k] - below) / root
    lower_mask = np.tri(len(a), dtype=bool)
    return np.where(
        lower_mask if lower else lower_mask.T, factor if lower else adjoint(factor), a
    ), info


def getrf(a: Array) -> tuple[Array, Array, int]:
    """(L below the diagonal and U; the row, from 1, that each row was exchanged with; info).

    Info is the first diagonal element of U that is zero, from 1; or 0.
    """
    lu = a.copy()
    rows, columns = a.shape
    pivots = np.zeros(min(rows, columns), np.int32)
    info = 0
    for k in range(len(pivots)):
        pivot = k + int(np.argmax(size1(lu[k:, k])))
        pivots[k] = pivot + 1
        if lu[pivot, k] == 0:
            info = info or k + 1
            continue
        lu[[k, pivot]] = lu[[pivot, k]]
        lu[k + 1 :, k] /= lu[k, k]
        lu[k + 1 :, k + 1 :] -= np.outer(lu[k + 1 :, k], lu[k, k + 1 :])
    return lu, pivots, info


def gtsv(
    low: Array, diagonal: Array, up: Array, b: Array
) -> tuple[Array, Array, Array, Array, int]:
    """What elimination with exchanges leaves of the three diagonals, the solution, and info.

    low[0] and up[-1] belong to no element and stay. low[1:] becomes the second diagonal above
    (0 where no rows were exchanged); info is the first zero on the diagonal, from 1, where
    elimination stops.
    """
    low, d, up, x = low.copy(), diagonal.copy(), up.copy(), b.copy()
    size = len(d)
    for k in range(size - 1):
        below = low[k + 1]
        low[k + 1] = 0
        if size1(d[k]) >= size1(below):
            if d[k] == 0:
                return low, d, up, x, k + 1
            factor = below / d[k]
            d[k + 1] -= factor * up[k]
            x[k + 1] -= factor * x[k]
            continue
        factor = d[k] / below
        d[k], d[k + 1], up[k] = below, up[k] - factor * d[k + 1], d[k + 1]
        if k + 2 < size:
            low[k + 1], up[k + 1] = up[k + 1], -factor * up[k + 1]
        x[[k, k + 1]] = x[[k + 1, k]]
        x[k + 1] -= factor * x[k]
    if size and d[-1] == 0:
        return low, d, up, x, size
    for k in reversed(range(size)):
        if k + 1 < size:
            x[k] -= up[k] * x[k + 1]
        if k + 2 < size:
            x[k] -= low[k + 1] * x[k + 2]
        x[k] /= d[k]
    return low, d, up, x, 0


# -- reflectors


def geqrf(a: Array) -> tuple[Array, Array]:
    """(R with the reflectors below its diagonal, their taus); a = H0 H1 ... R."""
    packed = a.copy()
    taus = np.zeros(min(a.shape), a.dtype)
    for k in range(len(taus)):
        beta, rest, taus[k] = reflector(packed[k:, k])
        _reflect(packed[k:, k + 1 :], _unit(rest), np.conj(taus[k]))
        packed[k, k], packed[k + 1 :, k] = beta, rest
    return packed, taus


def geqp3(a: Array, chosen: Array) -> tuple[Array, Array, Array]:
    """(packed, which column of `a`, from 1, each one is, taus): a[:, columns - 1] = H0 H1 ... R.

    Columns of which `chosen` is not 0 come first, then whichever is longest in what is left.
    """
    packed = a.copy()
    columns = np.arange(1, a.shape[1] + 1, dtype=np.int32)
    fixed = 0
    for k in np.flatnonzero(chosen):
        packed[:, [fixed, k]] = packed[:, [k, fixed]]
        columns[[fixed, k]] = columns[[k, fixed]]
        fixed += 1
    taus = np.zeros(min(a.shape), a.dtype)
    for k in range(len(taus)):
        if k >= fixed:
            longest = k + int(np.argmax(np.linalg.norm(packed[k:, k:], axis=0)))
            packed[:, [k, longest]] = packed[:, [longest, k]]
            columns[[k, longest]] = columns[[longest, k]]
        beta, rest, taus[k] = reflector(packed[k:, k])
        _reflect(packed[k:, k + 1 :], _unit(rest), np.conj(taus[k]))
        packed[k, k], packed[k + 1 :, k] = beta, rest
    return packed, columns, taus


def orgqr(packed: Array, taus: Array) -> Array:
    """The first columns of H0 H1 ... , as many as `packed` has."""
    q = np.eye(*packed.shape, dtype=packed.dtype)
    for k in reversed(range(len(taus))):
        _reflect(q[k:, k:], _unit(packed[k + 1 :, k]), taus[k])
    return q


def ormqr(packed: Array, taus: Array, c: Array, left: bool, adjoined: bool) -> Array:
    """q c, or c q where not `left`, with q = H0 H1 ... or its adjoint."""
    product = c.copy() if left else adjoint(c)  # c q is the adjoint of q* c*
    adjoined = adjoined == left
    for k in range(len(taus)) if adjoined else reversed(range(len(taus))):
        tau = np.conj(taus[k]) if adjoined else taus[k]
        _reflect(product[k:], _unit(packed[k + 1 :, k]), tau)
    return product if left else adjoint(product)


def gehrd(a: Array, first: int, last: int) -> tuple[Array, Array]:
    """(the Hessenberg form with reflectors below it, taus); rows `first` to `last`, from 1."""
    h = a.copy()
    taus = np.zeros(max(0, len(a) - 1), a.dtype)
    for k in range(first - 1, last - 1):
        beta, rest, taus[k] = reflector(h[k + 1 : last, k])
        v = _unit(rest)
        # From the right: the adjoint of H* from the left on the adjoint.
        right = h[:last, k + 1 : last]
        right -= taus[k] * np.outer(right @ v, np.conj(v))
        _reflect(h[k + 1 : last, k + 1 :], v, np.conj(taus[k]))
        h[k + 1, k], h[k + 2 : last, k] = beta, rest
    return h, taus


def hetrd(a: Array, lower: bool) -> tuple[Array, Array, Array, Array]:
    """(packed in one triangle, the other kept; the diagonal; what is beside it; taus)."""
    size = len(a)
    triangle = np.tril(a, -1) if lower else np.triu(a, 1)
    whole = triangle + adjoint(triangle) + np.diag(np.real(np.diag(a))).astype(a.dtype)
    packed, beside = a.copy(), np.zeros(max(0, size - 1))
    taus = np.zeros(max(0, size - 1), a.dtype)
    for k in range(size - 1) if lower else reversed(range(size - 1)):
        # Upper: the same from the end to the start, and v ends with its 1.
        x = whole[k + 1 :, k] if lower else whole[k::-1, k + 1]
        beside[k], rest, taus[k] = reflector(x)
        v = _unit(rest)
        part = whole[k + 1 :, k + 1 :] if lower else whole[: k + 1, : k + 1]
        if not lower:
            v = v[::-1]
            packed[:k, k + 1], packed[k, k + 1] = v[:-1], beside[k]
        else:
            packed[k + 2 :, k], packed[k + 1, k] = rest, beside[k]
        _reflect(part, v, np.conj(taus[k]))
        part -= taus[k] * np.outer(part @ v, np.conj(v))
    diagonal = np.real(np.diag(whole)).copy()
    packed[np.arange(size), np.arange(size)] = diagonal
    return packed, diagonal, beside, taus
