"""Elementwise operations on complex numbers, against Python's `cmath` and exact integers."""

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hloom.types.dtype import BY_NAME
from tests.interp.one_op import run

COMPLEX = ["c64", "c128"]

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


def pairs(values: list[Any], numpy_type: Any) -> tuple[Any, Any]:
    x = [a for a in values for _ in values]
    y = [b for _ in values for b in values]
    return np.array(x).astype(numpy_type), np.array(y).astype(numpy_type)


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
    assert got[:2].tolist() == [1, 0]
    assert np.isnan(got[2])


def test_complex_power_of_one_and_infinity() -> None:
    x = np.array([1, math.inf, math.inf], np.complex128)
    assert run("power", x, np.array([math.nan, 2, -1 + 0j])).tolist() == [1, math.inf, 0]


def test_a_part_that_is_no_number_makes_the_magnitude_none() -> None:
    z = np.array([complex(math.inf, math.nan), complex(math.nan, 0), 3 + 4j])
    got = run("abs", z)
    assert np.isnan(got[:2]).all()
    assert got[2] == 5


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
