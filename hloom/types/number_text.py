"""Numbers as HLO text writes them: whole arrays of them at a time.

A float is written with few digits where these read back as the same bits, else with as many as
any value of its type needs. The formatting is one `%` over one long format, and the check that
the short form suffices is one numpy parse, so a million elements take about a second.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from hloom.types.dtype import F8E8M0FNU, F32, F64, DType
from hloom.types.packing import bits_of

Array = np.ndarray[Any, Any]

# Digits tried first and digits that always suffice; other formats always take the latter.
_DIGITS: Final = {"f32": (6, 9), "f64": (15, 17)}


def digits_that_suffice(dtype: DType) -> int:
    """The fewest significant digits with which every value of a float type reads back."""
    return int(np.ceil(1 + (dtype.mantissa_bits + 1) * np.log10(2.0)))


def shown_numbers(array: Array, dtype: DType) -> list[str]:
    """The text of each element of a flat array; a complex one as `(re, im)`, pred as 1 or 0."""
    if dtype.is_complex:
        real = shown_numbers(np.ascontiguousarray(array.real), dtype.component)
        imaginary = shown_numbers(np.ascontiguousarray(array.imag), dtype.component)
        return [f"({a}, {b})" for a, b in zip(real, imaginary, strict=True)]
    if dtype.is_floating:
        return _shown_floats(array, dtype)
    if dtype.is_sub_byte:
        array = array.astype(np.int8)
    elif dtype.is_pred:
        array = array.view(np.uint8)
    return list(map(str, array.tolist()))


def _shown_floats(array: Array, dtype: DType) -> list[str]:
    values = array if dtype in (F32, F64) else array.astype(np.float32)
    short, enough = _DIGITS.get(dtype.name, (0, digits_that_suffice(dtype)))
    with np.errstate(all="ignore"):
        finite = np.isfinite(values)
    if not short:
        texts = _formatted(values, enough).split()
        if dtype is F8E8M0FNU:
            # ml_dtypes rounds anything above 2^-127 up to 2^-126, so this one needs to be below.
            for where in np.flatnonzero(bits_of(array) == 0).tolist():
                texts[where] = "5.87747e-39"
    else:
        shown = _formatted(values, short)
        texts = shown.split()
        plain = shown if finite.all() else _formatted(np.where(finite, values, 0), short)
        with np.errstate(all="ignore"):
            read = np.fromstring(plain, np.float64, sep=" ").astype(values.dtype)
        wrong = np.flatnonzero((read != values) & finite)
        longer = _formatted(values[wrong], enough).split()
        for where, text in zip(wrong.tolist(), longer, strict=True):
            texts[where] = text
    for where in np.flatnonzero(np.isnan(values)).tolist():
        texts[where] = _shown_nan(int(bits_of(array[where : where + 1])[0]), dtype)
    return texts


def _formatted(values: Array, digits: int) -> str:
    return (f"%.{digits}g " * values.size) % tuple(values.tolist())


def _shown_nan(bits: int, dtype: DType) -> str:
    """`nan`, `-nan`, or with the mantissa where it is not the usual one: `nan(0x7)`."""
    sign = "-" if dtype.is_signed and bits >> (dtype.bits - 1) else ""
    if not dtype.has_infinity:
        return f"{sign}nan"
    payload = bits & ((1 << dtype.mantissa_bits) - 1)
    if payload == 1 << (dtype.mantissa_bits - 1):
        return f"{sign}nan"
    return f"{sign}nan(0x{payload:x})"
