"""Conversion between all pairs of types, against exact arithmetic written out here."""

from bisect import bisect_left
from fractions import Fraction
from functools import cache
from itertools import product
from math import floor, isinf, isnan

import numpy as np
import pytest

from hloom.base.diagnostics import UsageError
from hloom.types.convert import converted
from hloom.types.dtype import (
    ARRAY_TYPES,
    BF16,
    C64,
    C128,
    F4E2M1FN,
    F8E8M0FNU,
    F32,
    F64,
    FLOAT_TYPES,
    PRED,
    S4,
    S8,
    S32,
    S64,
    TOKEN,
    U8,
    U64,
)

PAIRS = list(product(ARRAY_TYPES, ARRAY_TYPES))


def interesting(dtype):
    """Every value of a small type; of a large one, edges, ties and ordinary values."""
    if dtype.is_pred:
        return np.array([False, True])
    if dtype.bits <= 8:
        return np.arange(2**dtype.bits, dtype=np.uint8).view(dtype.numpy)
    if dtype.is_integral:
        info = np.iinfo(dtype.numpy)
        small = [-300, -129, -128, -9, -8, -2, -1, 0, 1, 2, 3, 7, 8, 15, 16, 127, 128, 255, 256]
        values = [info.min, info.max, info.max // 2, *small]
        return np.array([v for v in values if info.min <= v <= info.max], dtype.numpy)
    halves = np.arange(-70, 70) / 8
    powers = 2.0 ** np.arange(-30, 31)
    large = [448.0, 464.0, 480.0, 57344.0, 61439.0, 61440.0, 65504.0, 3e9, -3e9, 1e19, -1e19]
    special = [np.nan, np.inf, -np.inf, -0.0, 1e-40, 2.0**127, 1.5 * 2.0**127, 2.0**-127]
    values = np.concatenate([halves, powers, -powers, powers * 1.5, powers * 1.25, large, special])
    with np.errstate(all="ignore"):
        if dtype.is_complex:
            return (values + 1j * values[::-1]).astype(dtype.numpy)
        return values.astype(dtype.numpy)


def value_of(element, dtype):
    if dtype.is_complex:
        return complex(element)
    return float(element) if dtype.is_floating else int(element)


def to_integer(value, dtype, wraps):
    if isinstance(value, float):
        if isnan(value):
            return 0
        low = -(1 << (dtype.bits - 1)) if dtype.is_signed_int else 0
        high = (1 << (dtype.bits - bool(dtype.is_signed_int))) - 1
        return max(low, min(high, int(value))) if not isinf(value) else (low, high)[value > 0]
    assert wraps
    value %= 1 << dtype.bits
    if dtype.is_signed_int and value >= 1 << (dtype.bits - 1):
        value -= 1 << dtype.bits
    return value


@cache
def finite_values(dtype):
    """All finite non-negative values of a format of at most 8 bits, from its definition."""
    values = []
    for bits in range(1 << (dtype.bits - dtype.is_signed)):
        exponent, mantissa = bits >> dtype.mantissa_bits, bits & ((1 << dtype.mantissa_bits) - 1)
        scale = Fraction(2) ** (max(exponent, 1) - dtype.exponent_bias - dtype.mantissa_bits)
        if dtype is F8E8M0FNU:
            values.append((bits, Fraction(2) ** (bits - dtype.exponent_bias)))
            continue
        hidden = (exponent > 0) << dtype.mantissa_bits
        values.append((bits, (hidden + mantissa) * scale))
    top = max(bits for bits, _ in values)
    if dtype.has_infinity:
        top -= 1 << dtype.mantissa_bits
    elif dtype.has_nan and (dtype.has_negative_zero or not dtype.is_signed):
        top -= 1
    return [(bits, value) for bits, value in values if bits <= top]


def to_small_float(value, dtype):
    """A number rounded to nearest even into a format of at most 8 bits; the float it becomes."""
    if isnan(value):
        # Where there is no NaN, ml_dtypes gives a zero of the opposite sign.
        return float("nan") if dtype.has_nan else 0.0 if np.signbit(value) else -0.0
    known = finite_values(dtype)
    largest = float(known[-1][1])
    sign = -1.0 if np.signbit(float(value)) else 1.0
    beyond = float("inf") if dtype.has_infinity else float("nan") if dtype.has_nan else largest
    if isinf(value):
        return sign * beyond
    exact = abs(Fraction(value))
    if dtype is F8E8M0FNU and (exact == 0 or sign < 0):
        return float("nan")
    step = known[-1][1] - known[-2][1]
    tie_rounds_up = known[-1][0] % 2 == 1 or dtype is F8E8M0FNU
    limit = known[-1][1] + (step if dtype is F8E8M0FNU else step / 2)
    if exact > limit or (exact == limit and tie_rounds_up):
        return sign * beyond
    above = bisect_left(known, exact, key=lambda kv: kv[1])
    best = min(
        known[max(above - 1, 0) : above + 1],
        key=lambda kv: (abs(kv[1] - exact), -kv[1] if dtype is F8E8M0FNU else kv[0] % 2),
    )
    return sign * float(best[1])


def expected(value, source, target):
    if target.is_pred:
        return int(value != 0)
    if isinstance(value, complex) and not target.is_complex:
        return expected(value.real, source.component, target)
    if target.is_complex:
        whole = complex(value)
        with np.errstate(all="ignore"):
            return complex(target.numpy.type(whole))
    if target.is_integral:
        return to_integer(value, target, wraps=not source.is_floating)
    if target.bits <= 8:
        return to_small_float(value, target)
    with np.errstate(all="ignore"):
        return float(np.float64(value).astype(target.numpy))


def is_same(a, b):
    if isinstance(a, complex):
        return is_same(a.real, b.real) and is_same(a.imag, b.imag)
    if isinstance(a, float) and isinstance(b, float):
        return (isnan(a) and isnan(b)) or (a == b and np.signbit(a) == np.signbit(b))
    return a == b


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda t: t.name)
def test_every_pair_equals_exact_arithmetic(source, target):
    values = interesting(source)
    found = converted(values, source, target)
    assert found.dtype == target.numpy and found.shape == values.shape
    for before, after in zip(values, found, strict=True):
        value = value_of(before, source)
        # ml_dtypes goes from doubles and long integers to its types by way of f32.
        if target.bits <= 16 and target.is_floating:
            real = value.real if isinstance(value, complex) else value
            with np.errstate(all="ignore"):
                value = float(np.float32(real))
        wanted, seen = expected(value, source, target), value_of(after, target)
        if target.is_floating and wanted == 0 and not target.has_negative_zero:
            wanted = abs(wanted)
        assert is_same(wanted, seen), (before, wanted, seen)


@pytest.mark.parametrize("target", [t for t in FLOAT_TYPES if t is not F32], ids=str)
def test_rounding_equals_ml_dtypes_bit_for_bit(target):
    random = np.random.default_rng(0)
    values = random.integers(0, 2**32, 20_000, np.uint32).view(np.float32)
    values = np.concatenate([values, random.standard_normal(20_000).astype(np.float32)])
    with np.errstate(all="ignore"):
        wanted = values.astype(target.numpy)
    assert converted(values, F32, target).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("source", [t for t in FLOAT_TYPES if t.bits <= 8], ids=str)
def test_small_floats_convert_as_ml_dtypes_converts_them_directly(source):
    values = np.arange(2**source.bits, dtype=np.uint8).view(source.numpy)
    compared = 0
    for target in FLOAT_TYPES:
        try:
            with np.errstate(all="ignore"):
                wanted = values.astype(target.numpy)
        except TypeError:
            continue  # a pair that ml_dtypes lacks
        compared += 1
        assert converted(values, source, target).tobytes() == wanted.tobytes(), target.name
    assert compared >= 4


def test_f4e2m1fn_as_specified():
    values = [0.25, 0.2500001, 0.75, 1.25, 5.0, 7.0, -0.0, np.inf, -np.inf, 3.4e38, 6.5]
    found = converted(np.array(values, np.float32), F32, F4E2M1FN).astype(np.float32)
    wanted = [0.0, 0.5, 1.0, 1.0, 4.0, 6.0, -0.0, 6.0, -6.0, 6.0, 6.0]
    assert found.tobytes() == np.array(wanted, np.float32).tobytes()


def test_f8e8m0fnu_as_specified():
    edge = np.float32(1.5 * 2.0**127)
    values = np.array([0, -0.0, -1, 1, 3, 6, np.nextafter(edge, np.float32(0)), edge, np.inf])
    found = converted(values.astype(np.float32), F32, F8E8M0FNU).view(np.uint8)
    assert found.tolist() == [255, 255, 255, 127, 129, 130, 254, 255, 255]
    tiny = converted(np.array([1e-300, 1e-60, 1e-40, 2.0**-127]), F64, F8E8M0FNU)
    assert tiny.view(np.uint8).tolist() == [0, 0, 0, 0]


def test_floats_saturate_as_integers():
    values = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 1.9, -1.9, 2.0**63, -(2.0**63), 1e30])
    assert converted(values, F64, S32).tolist() == [
        0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 1, -1, 2**31 - 1, -(2**31), 2**31 - 1,
    ]  # fmt: skip
    assert converted(values, F64, S64)[[1, 2, 7, 8]].tolist() == [
        2**63 - 1, -(2**63), 2**63 - 1, -(2**63),
    ]  # fmt: skip
    assert converted(values, F64, U64)[[1, 2, 6, 7, 9]].tolist() == [
        2**64 - 1, 0, 0, 2**63, 2**64 - 1,
    ]  # fmt: skip
    assert converted(values, F64, S4).astype(np.int8).tolist() == [0, 7, -8, 7, -8, 1, -1, 7, -8, 7]


def test_other_rules():
    assert converted(np.array([200, 255], np.uint8), U8, S8).tolist() == [-56, -1]
    assert converted(np.array([0.0, -0.0, np.nan, 0.5]), F64, PRED).tolist() == [0, 0, 1, 1]
    assert converted(np.array([1 + 2j, 0 + 1j], np.complex64), C64, PRED).tolist() == [1, 1]
    assert converted(np.array([1 + 2j]), C128, BF16).tolist() == [1.0]
    assert converted(np.array([True, False]), PRED, C64).tolist() == [1, 0]
    same = np.arange(3.0)
    assert converted(same, F64, F64) is same
    with pytest.raises(UsageError):
        converted(same, F64, TOKEN)


def test_truncation_is_toward_zero():
    values = np.linspace(-100.5, 100.5, 403)
    wanted = [floor(abs(v)) * (1 if v >= 0 else -1) for v in values]
    assert converted(values, F64, S8).tolist() == wanted
