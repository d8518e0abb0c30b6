"""How products are summed: in which type operands meet, and what each dot algorithm rounds.

Integers are summed modulo the width of the result. Floats below 64 bits are multiplied and summed
in f32, as XLA's CPU does, and rounded to the result's type once at the end. Dot algorithms are
simulated: operands are cut into the terms they name and the products they name are added up, so the
result has the error that hardware would show. Those that sum in 16 bits leave open how sums are
made: they are made in f32 and rounded to 16 bits once, as by XLA's CPU.
"""

from collections.abc import Callable

import numpy as np

from hloom.interp.elementwise_convert import reduced
from hloom.interp.elementwise_number import Array, narrowed
from hloom.types.convert import converted
from hloom.types.dtype import BF16, F32, F64, S64, U64, DType

EXACT_IN_F64 = 1 << 53
"""Integers of smaller magnitude, and sums of them, are exact in f64."""


Types = tuple[DType, DType, DType]
"""The types of lhs, rhs and result."""


def summing_type(types: Types, terms: int) -> DType:
    """The type operands are widened to, when each result is a sum of `terms` products.

    Integers whose sums cannot leave the exact range of f64 take that, where products are fast;
    others the 64 bits that keep all low bits any result needs.
    """
    x, y, result = types
    for t in (result, x, y):
        if t.is_complex:
            return t
    if any(t.is_floating for t in types):
        return F64 if F64 in types else F32
    if (terms << (x.bits + y.bits)) <= EXACT_IN_F64:
        return F64
    return U64 if result is U64 else S64


def matrix_product(x: Array, y: Array, types: Types, algorithm: str | None = None) -> Array:
    """x[..., m, k] times y[..., k, n], of the third of `types`."""
    wide = summing_type(types, x.shape[-1])
    x, y = converted(x, types[0], wide), converted(y, types[1], wide)
    return widened_product(x, y, wide, types, algorithm)


def widened_product(
    x: Array, y: Array, wide: DType, types: Types, algorithm: str | None = None
) -> Array:
    """`matrix_product` of operands that are of the summing type `wide` already."""
    result = types[2]
    if wide.is_complex or wide.is_integral or algorithm in (None, "unset", "dot_unset"):
        product = np.matmul(x, y)
    else:
        product = _by_algorithm(x, y, algorithm)
    if result.is_floating or result.is_complex:
        return narrowed(product, result)
    if not types[0].is_floating and wide is F64:  # exact integers: they wrap, not saturate
        return converted(product.astype(np.int64), S64, result)
    return converted(product.astype(wide.numpy, copy=False), wide, result)


# -- algorithms ----------------------------------------------------------------------------


def _as_f16(x: Array) -> Array:
    return x.astype(np.float16).astype(np.float32)


def _as_bf16(x: Array) -> Array:
    return x.astype(BF16.numpy).astype(np.float32)


def _as_tf32(x: Array) -> Array:
    return reduced(x, 8, 23, 8, 10)


# Rounding of the terms, how many terms make an operand, and which products are added: those
# whose term indices add up to at most the last number.
_SPLITS: dict[str, tuple[Callable[[Array], Array], int, int]] = {
    "dot_f16_f16_f32": (_as_f16, 1, 0),
    "dot_bf16_bf16_f32": (_as_bf16, 1, 0),
    "dot_bf16_bf16_f32_x3": (_as_bf16, 2, 1),
    "dot_bf16_bf16_f32_x6": (_as_bf16, 3, 2),
    "dot_bf16_bf16_f32_x9": (_as_bf16, 3, 4),
    # Products of bf16 from those of f8: here exact, as they would be of enough parts.
    "dot_bf16_bf16_fp8x3": (_as_bf16, 1, 0),
    "dot_bf16_bf16_fp8x4": (_as_bf16, 1, 0),
    "dot_tf32_tf32_f32": (_as_tf32, 1, 0),
    "dot_tf32_tf32_f32_x3": (_as_tf32, 2, 1),
}


def _by_algorithm(x: Array, y: Array, algorithm: str) -> Array:
    """The product as `algorithm` computes it; x and y are f32 or f64."""
    if algorithm == "dot_f64_f64_f64":
        return np.matmul(x.astype(np.float64), y.astype(np.float64))
    x, y = x.astype(np.float32), y.astype(np.float32)
    if algorithm == "dot_f16_f16_f16":
        return _as_f16(np.matmul(_as_f16(x), _as_f16(y)))
    if algorithm == "dot_bf16_bf16_bf16":
        return _as_bf16(np.matmul(_as_bf16(x), _as_bf16(y)))
    if algorithm not in _SPLITS:  # f32; and f8 operands, which are exact in f32
        return np.matmul(x, y)
    rounded, count, highest = _SPLITS[algorithm]
    if count == 1:
        return np.matmul(rounded(x), rounded(y))
    x_terms, y_terms = _split(x, rounded, count), _split(y, rounded, count)
    orders = [(a, b) for a in range(count) for b in range(count) if 0 < a + b <= highest]
    # Smallest products first, so that they are not lost one by one in the largest.
    rest = np.zeros((), np.float32)
    for a, b in sorted(orders, key=lambda order: -sum(order)):
        rest = rest + np.matmul(x_terms[a], y_terms[b])
    # Infinite operands make NaN there, of inf - inf; the leading product alone is right then.
    return np.matmul(x_terms[0], y_terms[0]) + np.where(np.isnan(rest), np.float32(0), rest)


def _split(x: Array, rounded: Callable[[Array], Array], count: int) -> list[Array]:
    """`count` rounded terms that add up to nearly x."""
    terms = []
    for _ in range(count):
        term = rounded(x)
        lost = np.isinf(term) & np.isfinite(x)
        if lost.any():  # rounding up would overflow: cut the lower half of the bits off instead
            bits = np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFF0000)
            term = np.where(lost, bits.view(np.float32), term)
        terms.append(term)
        x = x - term
    return terms
