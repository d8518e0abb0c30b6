"""Integer arithmetic as HLO defines it: it wraps, and nothing is undefined.

Each function takes arrays of one wide type (`widened`) and the element type they stand for, and
returns a wide array that `narrowed` wraps to that type.
"""

import numpy as np

from hloom.interp.elementwise_number import Array
from hloom.types.dtype import DType


def _mask(dtype: DType) -> np.uint64:
    return np.uint64(2**64 - 1) >> np.uint64(64 - dtype.bits)


def _raw(x: Array, dtype: DType) -> Array:
    """The bits of each element in a 64-bit word, high bits zero."""
    return x.astype(np.int64).view(np.uint64) & _mask(dtype) if x.dtype != np.uint64 else x


def _unsigned_word_as(word: Array, dtype: DType) -> Array:
    """A 64-bit word whose low bits are the result, in a type that `narrowed` can wrap."""
    return word if dtype.is_unsigned_int and dtype.bits == 64 else word.view(np.int64)


def absolute(x: Array, dtype: DType) -> Array:
    """|x|; the smallest integer, whose magnitude does not fit, stays itself."""
    return np.abs(x)


def divide(x: Array, y: Array, dtype: DType) -> Array:
    """Truncated quotient; x / 0 is all ones, MIN / -1 is MIN."""
    zero = y == 0
    minus_one = (y == -1) if dtype.is_signed_int else np.zeros_like(zero)
    divisor = np.where(zero | minus_one, np.ones_like(y), y)
    # x minus its truncated remainder is a multiple of y, so flooring division is exact.
    quotient = np.floor_divide(x - np.fmod(x, divisor), divisor)
    quotient = np.where(minus_one, np.negative(x), quotient)
    return np.where(zero, np.invert(np.zeros_like(x)), quotient)


def remainder(x: Array, y: Array, dtype: DType) -> Array:
    """What truncated division leaves; x for x % 0, 0 for x % -1."""
    zero = y == 0
    minus_one = (y == -1) if dtype.is_signed_int else np.zeros_like(zero)
    rest = np.fmod(x, np.where(zero | minus_one, np.ones_like(y), y))
    return np.where(zero, x, rest)


def power(x: Array, y: Array, dtype: DType) -> Array:
    """x ** y, wrapping; a negative y gives 1 or -1 for those bases and 0 for all others."""
    x, y = np.broadcast_arrays(x, y)
    base, exponent = _raw(x, dtype), _raw(y, dtype)
    result = np.ones_like(base)
    for _ in range(dtype.bits):
        if not exponent.any():
            break
        result = np.where(exponent & np.uint64(1), result * base, result)
        base = base * base
        exponent = exponent >> np.uint64(1)
    power_ = _unsigned_word_as(result, dtype)
    if not dtype.is_signed_int:
        return power_
    odd = (y & 1) != 0
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(odd, -1, 1), 0)).astype(np.int64)
    return np.where(y < 0, inverse, power_)


def multiply_high(x: Array, y: Array, dtype: DType) -> Array:
    """The high half of the product of twice the width."""
    if dtype.bits < 64:
        wide = np.int64 if dtype.is_signed_int else np.uint64
        return (x.astype(wide) * y.astype(wide)) >> wide(dtype.bits)
    # Schoolbook on 32-bit halves, for the unsigned words; then corrected for the signs.
    low32, by32 = np.uint64(0xFFFFFFFF), np.uint64(32)
    a, b = x.view(np.uint64), y.view(np.uint64)
    a_low, a_high, b_low, b_high = a & low32, a >> by32, b & low32, b >> by32
    middle = a_high * b_low + ((a_low * b_low) >> by32)
    other = a_low * b_high + (middle & low32)
    high = a_high * b_high + (middle >> by32) + (other >> by32)
    if dtype.is_signed_int:
        high = high - np.where(x < 0, b, np.uint64(0)) - np.where(y < 0, a, np.uint64(0))
        return high.view(np.int64)
    return high


def shift_left(x: Array, y: Array, dtype: DType) -> Array:
    """x << y; 0 when y, read as unsigned, is not below the width."""
    word, by = _raw(x, dtype), _raw(y, dtype)
    fits = by < np.uint64(dtype.bits)
    shifted = word << np.where(fits, by, np.uint64(0))
    return _unsigned_word_as(np.where(fits, shifted, np.uint64(0)), dtype)


def shift_right_logical(x: Array, y: Array, dtype: DType) -> Array:
    """x >> y filled with zeros; 0 when y, read as unsigned, is not below the width."""
    word, by = _raw(x, dtype), _raw(y, dtype)
    fits = by < np.uint64(dtype.bits)
    shifted = word >> np.where(fits, by, np.uint64(0))
    return _unsigned_word_as(np.where(fits, shifted, np.uint64(0)), dtype)


def shift_right_arithmetic(x: Array, y: Array, dtype: DType) -> Array:
    """x >> y filled with the top bit (also of unsigned types), however large y is."""
    word, by = _raw(x, dtype), _raw(y, dtype)
    spare = np.uint64(64 - dtype.bits)
    signed = (word << spare).view(np.int64) >> spare.view(np.int64)
    amount = np.minimum(by, np.uint64(dtype.bits - 1)).view(np.int64)
    result = np.asarray(signed >> amount)
    return result if dtype.is_signed_int else result.view(np.uint64)


def population_count(x: Array, dtype: DType) -> Array:
    """How many bits are one."""
    return np.bitwise_count(_raw(x, dtype))


def count_leading_zeros(x: Array, dtype: DType) -> Array:
    """How many zero bits stand above the highest one bit; the width for 0."""
    word = _raw(x, dtype)
    for by in (1, 2, 4, 8, 16, 32):  # smear the highest one bit over all below it
        word = word | (word >> np.uint64(by))
    return dtype.bits - np.bitwise_count(word).astype(np.int64)
