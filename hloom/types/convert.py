"""Conversion between element types with the meaning of HLO's `convert`.

ml_dtypes gives the rounding of every float format; what it leaves open (float to integer out of
range, wrapping of narrow integers, the pairs it lacks) is settled here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.types.dtype import F8E8M0FNU, F32, DType
from hloom.types.limits import integer_range


def converted(
    array: np.ndarray[Any, Any], from_dtype: DType, to_dtype: DType
) -> np.ndarray[Any, Any]:
    """The array with each element converted; same shape, the numpy type of `to_dtype`.

    Float to integer truncates toward zero and saturates, NaN gives 0. Integer to integer wraps.
    To a float rounds to nearest even as the format does. To `pred`: is it not 0.
    Complex to real takes the real part.
    """
    if not (from_dtype.is_array_element and to_dtype.is_array_element):
        raise UsageError(f"no conversion from {from_dtype.name} to {to_dtype.name}")
    array = np.asarray(array)
    if from_dtype is to_dtype:
        return array
    with np.errstate(all="ignore"):
        if to_dtype.is_pred:
            return _to_pred(array, from_dtype)
        if from_dtype.is_complex:
            if to_dtype.is_complex:
                return array.astype(to_dtype.numpy)
            return converted(array.real, from_dtype.component, to_dtype)
        if to_dtype.is_complex:
            part = converted(array, from_dtype, to_dtype.component)
            return part.astype(to_dtype.numpy)
        if from_dtype.is_floating:
            if to_dtype.is_floating:
                return _float_to_float(array, to_dtype)
            return _float_to_integer(array, to_dtype)
        wide = _widened(array, from_dtype)
        if to_dtype.is_floating:
            return wide.astype(to_dtype.numpy)
        return _wrapped(wide, to_dtype)


def _to_pred(array: np.ndarray[Any, Any], from_dtype: DType) -> np.ndarray[Any, Any]:
    if from_dtype.is_floating and from_dtype.bits < 32:
        array = array.astype(np.float32)
    elif from_dtype.is_sub_byte:
        array = array.view(np.uint8)
    return np.asarray(array != 0)


def _float_to_float(array: np.ndarray[Any, Any], to_dtype: DType) -> np.ndarray[Any, Any]:
    if array.dtype.itemsize == 1:
        array = array.astype(F32.numpy)  # exact, and ml_dtypes has every pair with f32
    elif to_dtype is F8E8M0FNU and array.dtype.itemsize == 8:
        # By way of f32 tiny values would become 0, and so NaN, instead of 2^-127.
        array = np.where((array > 0) & (array < 2.0**-127), 2.0**-127, array)
    return array.astype(to_dtype.numpy)


def _float_to_integer(array: np.ndarray[Any, Any], to_dtype: DType) -> np.ndarray[Any, Any]:
    low, high = integer_range(to_dtype)
    values = np.trunc(array.astype(np.float64))
    # As floats: `low` is exact, and above `high` means at least the power of two after it.
    too_high, too_low = values >= float(high + 1), values < float(low)
    inside = np.where(too_high | too_low | np.isnan(values), 0.0, values)
    storage = np.uint64 if to_dtype.is_unsigned_int else np.int64
    whole = inside.astype(storage)
    whole = np.where(too_high, storage(high), np.where(too_low, storage(low), whole))
    return _wrapped(whole, to_dtype)


def _widened(array: np.ndarray[Any, Any], from_dtype: DType) -> np.ndarray[Any, Any]:
    """Narrow integers and `pred` as bytes with the same values; others as they are."""
    if from_dtype.is_pred:
        return array.view(np.uint8)
    if from_dtype.is_sub_byte:
        return array.astype(np.int8 if from_dtype.is_signed_int else np.uint8)
    return array


def _wrapped(array: np.ndarray[Any, Any], to_dtype: DType) -> np.ndarray[Any, Any]:
    if not to_dtype.is_sub_byte:
        return array.astype(to_dtype.numpy)
    low_bits = array.astype(np.uint8) & np.uint8((1 << to_dtype.bits) - 1)
    return np.asarray(low_bits).view(to_dtype.numpy)
