"""Functions of real numbers on f32 and f64 arrays.

f32 functions are computed in f64 and rounded once, so that nearly every f32 result is the
correctly rounded one; f64 functions are those of numpy and of the C library. `REAL_UNARY` and
`REAL_BINARY` say which are exact in either precision and need no detour.
"""

import math
from collections.abc import Callable

import numpy as np

from hloom.interp.elementwise_number import Array
from hloom.types.dtype import from_numpy


def error_function(x: Array) -> Array:
    """erf of f64 values to within 1 ulp.

    The C library's, element by element: about 100 ns each, as long as numpy needs for the four
    masked rationals such an erf is made of.
    """
    values = map(math.erf, x.ravel().tolist())
    return np.fromiter(values, np.float64, x.size).reshape(x.shape)


def logistic(x: Array) -> Array:
    """1 / (1 + e**-x), without overflow: never more than e**0 is taken."""
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, np.ones_like(small)) / (1 + small)


def round_half_away(x: Array) -> Array:
    """Nearest integer, halves away from zero, keeping -0; 0.49999997 gives 0."""
    whole = np.trunc(x)
    away = np.abs(x - whole) >= 0.5  # the difference is exact, which x + 0.5 is not
    return np.copysign(np.abs(whole) + away.astype(x.dtype), x)


def reciprocal_root(x: Array) -> Array:
    """1 / sqrt(x); -inf for -0, NaN below."""
    return 1 / np.sqrt(x)


def sign(x: Array) -> Array:
    """-1, x itself for zeros and NaN, or 1."""
    return np.where(x == 0, x, np.sign(x))


def maximum(x: Array, y: Array) -> Array:
    """The larger; NaN if either is, and 0 is larger than -0."""
    larger = np.maximum(x, y)
    zero = larger == 0
    return np.where(zero & (x == y), x + y, larger) if np.any(zero) else larger


def minimum(x: Array, y: Array) -> Array:
    """The smaller; NaN if either is, and -0 is smaller than 0."""
    smaller = np.minimum(x, y)
    zero = smaller == 0
    return np.where(zero & (x == y), -(-x - y), smaller) if np.any(zero) else smaller


def zeros_ordered(opcode: str, result: Array, x: Array, any_of: Callable[[Array], Array]) -> Array:
    """What numpy made of `x` by folding with maximum or minimum, which take either of 0 and -0
    there; other opcodes and types as they are. `any_of` folds truth values in the same way."""
    if opcode not in ("maximum", "minimum") or not is_float(result):
        return result
    zero = result == 0
    if not np.any(zero):
        return result
    winner_is_there = any_of(winning_zeros(opcode, x))
    signed = np.where(
        winner_is_there == (opcode == "minimum"), result.dtype.type(-0.0), result.dtype.type(0)
    )
    return np.where(zero, signed, result)


def winning_zeros(opcode: str, x: Array) -> Array:
    """Where there is the zero that the other one gives way to: 0 for maximum, -0 for minimum."""
    return (x == 0) & (np.signbit(x) == (opcode == "minimum"))


def is_float(x: Array) -> bool:
    """Whether an array holds real floats, those of ml_dtypes among them."""
    return x.dtype.kind == "f" or (x.dtype.kind == "V" and from_numpy(x.dtype).is_floating)


EXACT_UNARY: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "negate": np.negative,
    "round-nearest-afz": round_half_away,
    "round-nearest-even": np.rint,
    "sign": sign,
    "sqrt": np.sqrt,
}
"""Correctly rounded in the precision they are given."""

ROUNDED_UNARY: dict[str, Callable[[Array], Array]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cosh": np.cosh,
    "cosine": np.cos,
    "erf": error_function,
    "exp2": np.exp2,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "log2": np.log2,
    "logistic": logistic,
    "rsqrt": reciprocal_root,
    "sine": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}
"""Computed in f64 for f32 too."""

EXACT_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "divide": np.divide,
    "maximum": maximum,
    "minimum": minimum,
    "multiply": np.multiply,
    "remainder": np.fmod,
    "subtract": np.subtract,
}

ROUNDED_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "atan2": np.arctan2,
    "power": np.power,
}
