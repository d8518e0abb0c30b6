"""Every elementwise operation on every type it admits, against Python's own numbers.

Integers are compared with Python's unbounded ones, reduced to the width; floats with `math`,
rounded to the type; complex numbers with `cmath`.
"""

import cmath
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hloom.base.diagnostics import EvalError
from hloom.interp.elementwise_number import bits_of
from hloom.types.dtype import ARRAY_TYPES, BY_NAME, FLOAT_TYPES, INTEGER_TYPES, DType
from tests.interp.one_op import run

INTEGERS = [t.name for t in INTEGER_TYPES]
FLOATS = [t.name for t in FLOAT_TYPES]
COMPLEX = ["c64", "c128"]

# -- integers ------------------------------------------------------------------------------


def bounds(t: DType) -> tuple[int, int]:
    if t.is_signed_int:
        return -(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1
    return 0, (1 << t.bits) - 1


def wrap(value: int, t: DType) -> int:
    low, _ = bounds(t)
    return (value - low) % (1 << t.bits) + low


def raw(value: int, t: DType) -> int:
    return value % (1 << t.bits)


def integer_values(t: DType) -> list[int]:
    """All of a narrow type; of a wide one the ends, small ones and some in between."""
    low, high = bounds(t)
    if t.bits <= 4:
        return list(range(low, high + 1))
    drawn = np.random.default_rng(t.bits).integers(low, high, 8, dtype=t.numpy).tolist()
    around = [v for k in (t.bits // 2, t.bits - 2) for v in ((1 << k) - 1, 1 << k)]
    small = [v for v in (-3, -2, -1, 0, 1, 2, 3, 7, t.bits - 1, t.bits, t.bits + 1) if v >= low]
    return [low, low + 1, high - 1, high, *small, *around, *drawn]


def pairs(values: list[Any], numpy_type: Any) -> tuple[Any, Any]:
    x = [a for a in values for _ in values]
    y = [b for _ in values for b in values]
    return np.array(x).astype(numpy_type), np.array(y).astype(numpy_type)


def integers(values: list[int], t: DType) -> Any:
    if t.is_sub_byte:
        return np.array(values, np.int8).astype(t.numpy)
    return np.array(values, t.numpy)


def quotient(x: int, y: int, t: DType) -> int:
    if y == 0:
        return -1
    magnitude = abs(x) // abs(y)
    return magnitude if (x < 0) == (y < 0) else -magnitude


def power(x: int, y: int, t: DType) -> int:
    if y >= 0:
        return pow(x, y, 1 << t.bits)
    if x in (1, -1):
        return 1 if x == 1 or y % 2 == 0 else -1
    return 0


BINARY_INTEGER: dict[str, Callable[[int, int, DType], int]] = {
    "add": lambda x, y, t: x + y,
    "subtract": lambda x, y, t: x - y,
    "multiply": lambda x, y, t: x * y,
    "mulhi": lambda x, y, t: (x * y) >> t.bits,
    "divide": quotient,
    "remainder": lambda x, y, t: x if y == 0 else x - y * quotient(x, y, t),
    "power": power,
    "maximum": lambda x, y, t: max(x, y),
    "minimum": lambda x, y, t: min(x, y),
    "and": lambda x, y, t: x & y,
    "or": lambda x, y, t: x | y,
    "xor": lambda x, y, t: x ^ y,
    "shift-left": lambda x, y, t: x << raw(y, t) if raw(y, t) < t.bits else 0,
    "shift-right-logical": lambda x, y, t: raw(x, t) >> raw(y, t),
    "shift-right-arithmetic": lambda x, y, t: signed(x, t) >> min(raw(y, t), t.bits),
}
UNARY_INTEGER: dict[str, Callable[[int, DType], int]] = {
    "abs": lambda x, t: abs(x),
    "negate": lambda x, t: -x,
    "not": lambda x, t: ~x,
    "sign": lambda x, t: (x > 0) - (x < 0),
    "popcnt": lambda x, t: raw(x, t).bit_count(),
    "count-leading-zeros": lambda x, t: t.bits - raw(x, t).bit_length(),
}


def signed(x: int, t: DType) -> int:
    """The value whose bits these are in the signed type of the same width."""
    return raw(x, t) - (1 << t.bits) * (raw(x, t) >> (t.bits - 1))


@pytest.mark.parametrize("type_name", INTEGERS)
@pytest.mark.parametrize("opcode", BINARY_INTEGER)
def test_integer_binary(opcode: str, type_name: str) -> None:
    t = BY_NAME[type_name]
    values = [int(v) for v in integers(integer_values(t), t)]
    x = integers([a for a in values for _ in values], t)
    y = integers([b for _ in values for b in values], t)
    got = run(opcode, x, y)
    assert got.dtype == t.numpy
    wanted = [wrap(BINARY_INTEGER[opcode](a, b, t), t) for a in values for b in values]
    assert [int(v) for v in got] == wanted


@pytest.mark.parametrize("type_name", INTEGERS)
@pytest.mark.parametrize("opcode", UNARY_INTEGER)
def test_integer_unary(opcode: str, type_name: str) -> None:
    t = BY_NAME[type_name]
    x = integers(integer_values(t), t)
    got = run(opcode, x)
    assert got.dtype == t.numpy
    assert [int(v) for v in got] == [wrap(UNARY_INTEGER[opcode](int(v), t), t) for v in x]


@pytest.mark.parametrize("opcode", ["add", "multiply", "and", "or", "xor", "maximum", "minimum"])
def test_pred(opcode: str) -> None:
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    wanted = {"add": "0111", "or": "0111", "maximum": "0111", "xor": "0110"}.get(opcode, "0001")
    got = run(opcode, x, y)
    assert got.dtype == np.bool_
    assert "".join(str(int(v)) for v in got) == wanted


def test_not_of_pred() -> None:
    assert run("not", np.array([True, False])).tolist() == [False, True]


def test_scalars_stay_arrays() -> None:
    got = run("add", np.int32(2**31 - 1), np.int32(1))
    assert isinstance(got, np.ndarray)
    assert got.shape == ()
    assert int(got) == -(2**31)


# -- floats --------------------------------------------------------------------------------

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


# -- complex -------------------------------------------------------------------------------

COMPLEX_UNARY: dict[str, Callable[[complex], complex]] = {
    "acos": cmath.acos,
    "acosh": cmath.acosh,
    "asin": cmath.asin,
    "asinh": cmath.asinh,
    "atanh": cmath.atanh,
    "cbrt": lambda z: z ** (1 / 3) if z else z,
    "cosh": cmath.cosh,
    "cosine": cmath.cos,
    "exponential": cmath.exp,
    "exponential-minus-one": lambda z: cmath.exp(z) - 1,
    "log": cmath.log,
    "log-plus-one": lambda z: cmath.log(1 + z),
    "logistic": lambda z: 1 / (1 + cmath.exp(-z)),
    "negate": lambda z: -z,
    "rsqrt": lambda z: 1 / cmath.sqrt(z),
    "sign": lambda z: z / abs(z),
    "sine": cmath.sin,
    "sinh": cmath.sinh,
    "sqrt": cmath.sqrt,
    "tan": cmath.tan,
    "tanh": cmath.tanh,
}
COMPLEX_BINARY: dict[str, Callable[[complex, complex], complex]] = {
    "add": lambda x, y: x + y,
    "atan2": lambda y, x: -1j * cmath.log((x + 1j * y) / cmath.sqrt(x * x + y * y)),
    "divide": lambda x, y: x / y,
    "multiply": lambda x, y: x * y,
    "power": lambda x, y: cmath.exp(y * cmath.log(x)),
    "subtract": lambda x, y: x - y,
}
_PARTS = [-2.5, -1.0, -0.3, 0.2, 0.7, 1.5, 3.0]
POINTS = [complex(a, b) for a in _PARTS for b in _PARTS]


def assert_near(got: Any, wanted: list[complex], tolerance: float) -> None:
    error = np.abs(got.astype(np.complex128) - np.array(wanted))
    assert (error <= tolerance * np.maximum(np.abs(wanted), 1e-3)).all(), error.max()


@pytest.mark.parametrize("type_name", COMPLEX)
@pytest.mark.parametrize("opcode", COMPLEX_UNARY)
def test_complex_unary(opcode: str, type_name: str) -> None:
    z = np.array(POINTS, BY_NAME[type_name].numpy)
    got = run(opcode, z)
    assert got.dtype == z.dtype
    wanted = [COMPLEX_UNARY[opcode](complex(v)) for v in z]
    assert_near(got, wanted, 1e-13 if type_name == "c128" else 3e-7)


@pytest.mark.parametrize("type_name", COMPLEX)
@pytest.mark.parametrize("opcode", COMPLEX_BINARY)
def test_complex_binary(opcode: str, type_name: str) -> None:
    x, y = pairs(POINTS[::3], BY_NAME[type_name].numpy)
    got = run(opcode, x, y)
    assert got.dtype == x.dtype
    wanted = [COMPLEX_BINARY[opcode](complex(a), complex(b)) for a, b in zip(x, y)]
    assert_near(got, wanted, 1e-12 if type_name == "c128" else 5e-7)


@pytest.mark.parametrize("opcode", ["acos", "acosh", "asin", "asinh", "atanh", "log", "sqrt"])
def test_branch_cuts_follow_the_sign_of_zero(opcode: str) -> None:
    on_cut = [complex(a, b) for a in (-2.0, 2.0) for b in (0.0, -0.0)]
    on_cut += [complex(a, b) for a in (0.0, -0.0) for b in (-2.0, 2.0)]
    got = run(opcode, np.array(on_cut))
    assert_near(got, [COMPLEX_UNARY[opcode](z) for z in on_cut], 1e-14)


def test_complex_log_plus_one_is_accurate_near_its_circle() -> None:
    """At z = -1 + cos a + i sin a, rounded, |1 + z| is 1 up to rounding: the exact logarithm of
    what was rounded, from integers, is compared."""
    angles = np.linspace(0.1, 3.0, 40)
    z = np.concatenate([np.cos(angles) - 1 + 1j * np.sin(angles), [1e-20 + 1e-20j, 1e-9 - 3e-5j]])
    got = run("log-plus-one", z)
    for value, answer in zip(z, got):
        a, b = value.real.as_integer_ratio(), value.imag.as_integer_ratio()
        # |1 + z|**2 - 1 = 2a + a*a + b*b, exactly
        top = 2 * a[0] * a[1] * b[1] ** 2 + a[0] ** 2 * b[1] ** 2 + b[0] ** 2 * a[1] ** 2
        excess = top / (a[1] ** 2 * b[1] ** 2)
        wanted = 0.5 * math.log1p(excess)
        assert abs(answer.real - wanted) <= 4e-16 * abs(wanted), (value, answer.real, wanted)


def test_complex_exponential_minus_one_is_accurate_near_zero() -> None:
    z = np.array([1e-10 + 1e-10j, -1e-8 + 1e-12j, 0j])
    wanted = [v + v * v / 2 + v**3 / 6 for v in z.tolist()]
    got = run("exponential-minus-one", z)
    assert np.allclose(got.real, np.real(wanted), rtol=1e-15, atol=0)
    assert np.allclose(got.imag, np.imag(wanted), rtol=1e-15, atol=0)


def test_complex_of_tiny_and_huge_values() -> None:
    z = np.array([3e30 + 4e30j, 3e-30 + 4e-30j], np.complex64)
    assert np.allclose(run("abs", z, result="f32"), [5e30, 5e-30], rtol=1e-7, atol=0)
    assert np.allclose(run("sign", z), 0.6 + 0.8j, rtol=1e-7)
    assert np.allclose(run("divide", z, z), 1, rtol=1e-7)
    big = np.array([3e300 + 4e300j, 3e-300 + 4e-300j])
    assert np.allclose(run("sign", big), 0.6 + 0.8j, rtol=1e-15)
    assert np.allclose(np.abs(run("rsqrt", big)), [1 / math.sqrt(5e300), 1 / math.sqrt(5e-300)])
    assert run("sign", np.array([0j])).tolist() == [0j]


def test_complex_power_at_zero() -> None:
    zero = np.zeros(3, np.complex64)
    got = run("power", zero, np.array([0, 2, 1 + 1j], np.complex64))
    assert got.tolist() == [1, 0, 0]


def test_complex_division_by_zero_and_infinity() -> None:
    x = np.array([1 + 1j, 1 + 1j, complex(math.inf, 1)])
    y = np.array([0j, complex(math.inf, 1), 2 + 0j])
    got = run("divide", x, y)
    assert np.isinf(got[0])
    assert got[1] == 0
    assert np.isinf(got[2])


@pytest.mark.parametrize("type_name", COMPLEX)
def test_parts(type_name: str) -> None:
    t = BY_NAME[type_name]
    z = np.array([1 - 2j, complex(math.inf, math.nan)], t.numpy)
    part = t.component.name
    assert run("real", z, result=part).tolist() == [1, math.inf]
    imaginary = run("imag", z, result=part)
    assert imaginary.dtype == t.component.numpy
    assert imaginary[0] == -2
    joined = run("complex", z.real.copy(), imaginary, result=type_name)
    assert joined.dtype == t.numpy
    assert joined[0] == z[0]
    assert (math.isinf(joined[1].real), math.isnan(joined[1].imag)) == (True, True)


@pytest.mark.parametrize("type_name", FLOATS)
def test_parts_of_real_numbers(type_name: str) -> None:
    x = np.array([1.0, 2.0], np.float32).astype(BY_NAME[type_name].numpy)
    assert run("real", x).astype(float).tolist() == [1, 2]
    zero = 2.0**-127 if type_name == "f8e8m0fnu" else 0
    assert run("imag", x).astype(float).tolist() == [zero, zero]


# -- what is not defined -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opcode", "type_name"),
    [("erf", "c64"), ("sine", "s32"), ("and", "f32"), ("is-finite", "s8"), ("negate", "pred")],
)
def test_undefined_types_are_errors(opcode: str, type_name: str) -> None:
    x = np.zeros(2, BY_NAME[type_name].numpy)
    with pytest.raises(EvalError, match=f"{opcode} is not defined for {type_name}"):
        run(opcode, *([x, x] if opcode == "and" else [x]))


def test_every_type_is_covered() -> None:
    covered = {"pred", *INTEGERS, *FLOATS, *COMPLEX}
    assert covered == {t.name for t in ARRAY_TYPES}
    assert np.dtype(ml_dtypes.bfloat16) == BY_NAME["bf16"].numpy
