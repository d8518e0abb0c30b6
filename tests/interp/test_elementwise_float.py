"""Elementwise operations on every float type, against Python's `math`, rounded to the type."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hloom.interp.elementwise_number import bits_of
from hloom.types.dtype import BY_NAME, FLOAT_TYPES, DType
from tests.interp.one_op import run

FLOATS = [t.name for t in FLOAT_TYPES]

SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan]
ORDINARY = [1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.25, 3.0, -3.0, 0.1, 6.0, -0.75, 7.5]
EXTREME = [1e-30, -1e-30, 1e30, 1e-45, 0.49999997, 88.0, -100.0]


def float_values(t: DType) -> Any:
    if t.bits <= 8:  # all of them
        return np.arange(1 << t.bits, dtype=np.uint8).view(t.numpy)
    with np.errstate(over="ignore"):
        return np.array(SPECIAL + ORDINARY + EXTREME).astype(t.numpy)


def guarded(function: Callable[..., float], *x: float) -> float:
    """What `math` would return if it did not raise."""
    try:
        return function(*x)
    except OverflowError:
        return math.inf
    except (ValueError, ZeroDivisionError):
        return math.nan


def to_type(values: list[float], t: DType) -> Any:
    """Rounded once to f32 for types below it, as hloom computes those."""
    with np.errstate(all="ignore"):
        wide = np.array(values, np.float64)
        return wide.astype(np.float32).astype(t.numpy) if t.bits < 32 else wide.astype(t.numpy)


def steps(x: Any, t: DType) -> Any:
    """Integers that count the values of the type from 0; so differences are in ulps."""
    bits = bits_of(x, t).astype(np.int64)
    if not t.is_signed:
        return bits
    sign = 1 << (t.bits - 1)
    if t.bits == 64:
        return np.where(bits < 0, -(bits & (2**63 - 1)), bits)
    return np.where(bits & sign, -(bits & (sign - 1)), bits)


def assert_close(got: Any, wanted: Any, t: DType, ulps: int, shown: Any) -> None:
    assert got.dtype == wanted.dtype == t.numpy
    wide_got, wide_wanted = got.astype(np.float64), wanted.astype(np.float64)
    nan = np.isnan(wide_wanted)
    off = np.abs(steps(got, t) - steps(wanted, t)) > ulps
    off |= np.isinf(wide_got) != np.isinf(wide_wanted) if ulps == 0 else False
    bad = np.where(nan, ~np.isnan(wide_got), off | np.isnan(wide_got))
    # A type without NaN gives some zero for it, of a sign nobody promises.
    if ulps == 0 and t.has_negative_zero and t.has_nan:
        bad |= ~nan & (np.signbit(wide_got) != np.signbit(wide_wanted))
    assert not bad.any(), [(s[bad], wide_got[bad], wide_wanted[bad]) for s in shown]


def pole(function: Callable[[float], float], at: float, value: float) -> Callable[[float], float]:
    return lambda x: value if x == at else guarded(function, x)


def odd_overflow(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: math.copysign(guarded(function, abs(x)), x)


UNARY_FLOAT: dict[str, tuple[Callable[[float], float], int]] = {
    "abs": (math.fabs, 0),
    "acos": (math.acos, 1),
    "acosh": (math.acosh, 1),
    "asin": (math.asin, 1),
    "asinh": (math.asinh, 1),
    "atanh": (lambda x: math.copysign(math.inf, x) if abs(x) == 1 else guarded(math.atanh, x), 1),
    "cbrt": (math.cbrt, 1),
    "ceil": (lambda x: math.copysign(float(math.ceil(x)), x) if math.isfinite(x) else x, 0),
    "floor": (lambda x: math.copysign(float(math.floor(x)), x) if math.isfinite(x) else x, 0),
    "cosh": (math.cosh, 1),
    "cosine": (math.cos, 1),
    "erf": (math.erf, 1),
    "exponential": (math.exp, 1),
    "exponential-minus-one": (math.expm1, 1),
    "log": (pole(math.log, 0.0, -math.inf), 1),
    "log-plus-one": (pole(math.log1p, -1.0, -math.inf), 1),
    "logistic": (lambda x: 0.5 + 0.5 * math.tanh(x / 2), 2),
    "negate": (lambda x: -x, 0),
    "round-nearest-even": (
        lambda x: math.copysign(float(round(x)), x) if math.isfinite(x) else x,
        0,
    ),
    "round-nearest-afz": (
        lambda x: (
            math.copysign(math.floor(abs(x)) + float(abs(x) - math.floor(abs(x)) >= 0.5), x)
            if math.isfinite(x)
            else x
        ),
        0,
    ),
    "rsqrt": (lambda x: math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x), 1),
    "sign": (lambda x: x if x == 0 or math.isnan(x) else math.copysign(1.0, x), 0),
    "sine": (math.sin, 1),
    "sinh": (odd_overflow(math.sinh), 1),
    "sqrt": (math.sqrt, 0),
    "tan": (math.tan, 1),
    "tanh": (math.tanh, 1),
}


@pytest.mark.parametrize("type_name", FLOATS)
@pytest.mark.parametrize("opcode", UNARY_FLOAT)
def test_float_unary(opcode: str, type_name: str) -> None:
    t = BY_NAME[type_name]
    x = float_values(t)
    function, ulps = UNARY_FLOAT[opcode]
    wanted = to_type([guarded(function, v) for v in x.astype(np.float64).tolist()], t)
    if opcode == "logistic":  # the formula above loses the small values that hloom keeps
        keep = x.astype(np.float64) > -15
        assert_close(run(opcode, x)[keep], wanted[keep], t, 2 if t.bits >= 32 else 0, [x[keep]])
        return
    assert_close(run(opcode, x), wanted, t, ulps if t.bits >= 32 else 0, [x])


def fmod(x: float, y: float) -> float:
    return guarded(math.fmod, x, y)


def divide(x: float, y: float) -> float:
    if y != 0:
        return x / y
    if x == 0 or math.isnan(x) or math.isnan(y):
        return math.nan
    return math.copysign(math.inf, math.copysign(1, x) * math.copysign(1, y))


def larger(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y):
        return math.nan
    return x if (x, math.copysign(1, x)) > (y, math.copysign(1, y)) else y


def float_power(x: float, y: float) -> float:
    odd = math.isfinite(y) and y == math.floor(y) and y % 2 == 1
    if x == 0 and y < 0:
        return math.copysign(math.inf, x) if odd else math.inf
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and odd else math.inf
    except ValueError:
        return math.nan


BINARY_FLOAT: dict[str, tuple[Callable[[float, float], float], int]] = {
    "add": (lambda x, y: x + y, 0),
    "subtract": (lambda x, y: x - y, 0),
    "multiply": (lambda x, y: x * y, 0),
    "divide": (divide, 0),
    "remainder": (fmod, 0),
    "maximum": (larger, 0),
    "minimum": (lambda x, y: -larger(-x, -y), 0),
    "atan2": (math.atan2, 1),
    "power": (float_power, 1),
}


@pytest.mark.parametrize("type_name", FLOATS)
@pytest.mark.parametrize("opcode", BINARY_FLOAT)
def test_float_binary(opcode: str, type_name: str) -> None:
    t = BY_NAME[type_name]
    values = float_values(t)
    if t.bits == 8:
        values = values[:: 7 if opcode == "power" else 3]
    x, y = np.repeat(values, len(values)), np.tile(values, len(values))
    function, ulps = BINARY_FLOAT[opcode]
    wide = zip(x.astype(np.float64).tolist(), y.astype(np.float64).tolist())
    wanted = to_type([function(a, b) for a, b in wide], t)
    assert_close(run(opcode, x, y), wanted, t, ulps if t.bits >= 32 else 0, [x, y])


@pytest.mark.parametrize("type_name", FLOATS)
def test_is_finite(type_name: str) -> None:
    x = float_values(BY_NAME[type_name])
    got = run("is-finite", x, result="pred")
    assert got.tolist() == [math.isfinite(v) for v in x.astype(np.float64).tolist()]


def test_round_half_away_is_exact() -> None:
    x = np.array([0.49999997, -0.49999997, 8388609.0, 0.5, -2.5, -0.0], np.float32)
    got = run("round-nearest-afz", x)
    assert got.tolist() == [0.0, 0.0, 8388609.0, 1.0, -3.0, 0.0]
    assert np.signbit(got).tolist() == [False, True, False, False, True, True]


@pytest.mark.parametrize("type_name", FLOATS)
def test_parts_of_real_numbers(type_name: str) -> None:
    x = np.array([1.0, 2.0], np.float32).astype(BY_NAME[type_name].numpy)
    assert run("real", x).astype(float).tolist() == [1, 2]
    zero = 2.0**-127 if type_name == "f8e8m0fnu" else 0
    assert run("imag", x).astype(float).tolist() == [zero, zero]


def test_mixed_precision_rounds_to_the_type_of_the_result() -> None:
    x, y = np.array([1.0], BY_NAME["bf16"].numpy), np.array([2.0**-12], np.float32)
    assert run("add", x, y, result="f32").tolist() == [1 + 2.0**-12]
    assert run("add", y, x, result="bf16").astype(float).tolist() == [1.0]
    assert run("compare", x, y, result="pred", direction="GT").tolist() == [True]
