"""Linear algebra on batches of matrices: cholesky, triangular-solve.

Both go over rows one at a time, with all matrices of the batch and all right-hand sides at once.
Types below 64 bits are computed in f64 (c64 in c128) and rounded at the end.
"""

import numpy as np

from hloom.interp.context import EvalContext
from hloom.interp.elementwise_number import Array, narrowed
from hloom.interp.registry import MEANING
from hloom.ir.instruction import Instruction


def _wide(x: Array, is_complex: bool) -> Array:
    return x.astype(np.complex128 if is_complex else np.float64)


def _adjoint(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


@MEANING.of("cholesky")
def cholesky(i: Instruction, context: EvalContext, a: Array) -> Array:
    """The triangle L (or U, its adjoint) with L L* = a, zeros beside it.

    Only that triangle of `a` is read, and only the real part of the diagonal. Where a matrix of
    the batch is not positive definite, all of its factor is NaN.
    """
    dtype = i.operands[0].shape.dtype
    wide = _wide(a, dtype.is_complex)
    lower = wide if i.attrs.lower else _adjoint(wide)
    factor = np.zeros_like(lower)
    size = lower.shape[-1]
    bad = np.zeros(lower.shape[:-2], bool)
    for k in range(size):
        row = factor[..., k, :k]
        pivot = lower[..., k, k].real - np.sum(np.abs(row) ** 2, axis=-1)
        bad |= ~(pivot > 0)
        root = np.sqrt(pivot)
        below = factor[..., k + 1 :, :k] @ np.conj(row)[..., None]
        factor[..., k, k] = root
        factor[..., k + 1 :, k] = (lower[..., k + 1 :, k] - below[..., 0]) / root[..., None]
    factor[bad] = np.nan
    return narrowed(factor if i.attrs.lower else _adjoint(factor), dtype)


@MEANING.of("triangular-solve")
def triangular_solve(i: Instruction, context: EvalContext, a: Array, b: Array) -> Array:
    """x with op(a) x = b, or x op(a) = b when not left_side; op is nothing, the transpose or the
    adjoint. The other triangle of `a` is not read, nor its diagonal when it is a unit one."""
    attrs, dtype = i.attrs, i.shape.dtype
    matrix, right = _wide(a, dtype.is_complex), _wide(b, dtype.is_complex)
    op = {"TRANSPOSE": "T", "ADJOINT": "C"}.get(attrs.transpose_a, "N")
    solved = triangular_solution(
        matrix, right, left=attrs.left_side, lower=attrs.lower, op=op, unit=attrs.unit_diagonal
    )
    return narrowed(solved, dtype)


def triangular_solution(
    matrix: Array, right: Array, *, left: bool, lower: bool, op: str, unit: bool
) -> Array:
    """The same for wide types; `op` is N, T or C: nothing, the transpose, the adjoint."""
    if op != "N":
        matrix, lower = np.swapaxes(matrix, -1, -2), not lower
        if op == "C":
            matrix = np.conj(matrix)
    if not left:  # x a = b is the transpose of a' x' = b'
        matrix, lower = np.swapaxes(matrix, -1, -2), not lower
        right = np.swapaxes(right, -1, -2)
    solved = _substituted(matrix, right, lower, unit)
    return solved if left else np.swapaxes(solved, -1, -2)


def _substituted(matrix: Array, right: Array, lower: bool, unit: bool) -> Array:
    """The solution of a triangular system, row after row."""
    size = matrix.shape[-1]
    solved = np.zeros_like(right)
    for k in range(size) if lower else reversed(range(size)):
        known = slice(0, k) if lower else slice(k + 1, size)
        rest = right[..., k, :] - (matrix[..., k, None, known] @ solved[..., known, :])[..., 0, :]
        solved[..., k, :] = rest if unit else rest / matrix[..., k, k, None]
    return solved
