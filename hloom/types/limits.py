"""Special values of each type: zero, one, smallest, largest, NaN.

All are numpy scalars of `dtype.numpy`. A value a type does not have is a `UsageError`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.types.dtype import DType


def _from_bits(dtype: DType, bits: int) -> Any:
    """The scalar with this bit pattern; not for complex types."""
    return np.array([bits], f"<u{dtype.size_bytes}").view(dtype.numpy)[0]


def zero(dtype: DType) -> Any:
    """Zero; for `f8e8m0fnu`, which has none, bit pattern 0."""
    _require_elements(dtype)
    return np.zeros(1, dtype.numpy)[0]


def multiplicative_identity(dtype: DType) -> Any:
    """What changes nothing as a factor: one; in `s1`, which holds 0 and -1, -1: products wrap."""
    _require_elements(dtype)
    if dtype.is_signed_int and dtype.bits == 1:
        return _from_bits(dtype, 1)
    return np.ones(1, np.float32).astype(dtype.numpy)[0]


def min_value(dtype: DType) -> Any:
    """The smallest value: -infinity where the type has it, else the smallest finite one; of
    complex types what is before all others by real, then by imaginary part."""
    if dtype.is_complex:
        return dtype.numpy.type(complex(-np.inf, -np.inf))
    if dtype.is_floating and dtype.has_infinity:
        return np.array([-np.inf], np.float32).astype(dtype.numpy)[0]
    return min_finite_value(dtype)


def max_value(dtype: DType) -> Any:
    """The largest value: infinity where the type has it, else the largest finite one; of complex
    types what is behind all others by real, then by imaginary part."""
    if dtype.is_complex:
        return dtype.numpy.type(complex(np.inf, np.inf))
    if dtype.is_floating and dtype.has_infinity:
        return np.array([np.inf], np.float32).astype(dtype.numpy)[0]
    return max_finite_value(dtype)


def max_finite_value(dtype: DType) -> Any:
    """The largest finite value."""
    _require_order(dtype)
    if dtype.is_pred:
        return np.bool_(True)
    if dtype.is_integral:
        return _from_bits(dtype, (1 << (dtype.bits - dtype.is_signed_int)) - 1)
    return _from_bits(dtype, _largest_finite_bits(dtype))


def min_finite_value(dtype: DType) -> Any:
    """The smallest finite value; for `f8e8m0fnu`, which has no sign, 2^-127."""
    _require_order(dtype)
    if dtype.is_pred:
        return np.bool_(False)
    if dtype.is_integral:
        return _from_bits(dtype, 1 << (dtype.bits - 1) if dtype.is_signed_int else 0)
    if not dtype.is_signed:
        return _from_bits(dtype, 0)
    return _from_bits(dtype, _largest_finite_bits(dtype) | 1 << (dtype.bits - 1))


def nan(dtype: DType) -> Any:
    """The quiet NaN of a float type; complex types get it as the real part."""
    if not dtype.has_nan:
        raise UsageError(f"type {dtype.name} has no NaN")
    return np.array([np.nan], np.float32).astype(dtype.numpy)[0]


def integer_range(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest integer of an integer type, or 0 and 1 for `pred`."""
    if dtype.is_pred:
        return 0, 1
    if not dtype.is_integral:
        raise UsageError(f"type {dtype.name} is not an integer type")
    if dtype.is_signed_int:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


@cache
def _largest_finite_bits(dtype: DType) -> int:
    """From the fields of the type: all ones, less what stands for infinity and NaN."""
    top = (1 << (dtype.exponent_bits + dtype.mantissa_bits)) - 1
    if dtype.has_infinity:
        return top - (1 << dtype.mantissa_bits)
    if dtype.has_nan and (dtype.has_negative_zero or not dtype.is_signed):
        return top - 1
    return top


def _require_elements(dtype: DType) -> None:
    if not dtype.is_array_element:
        raise UsageError(f"type {dtype.name} has no elements")


def _require_order(dtype: DType) -> None:
    _require_elements(dtype)
    if dtype.is_complex:
        raise UsageError(f"type {dtype.name} has no smallest or largest value")
