"""Real functions against mpmath: a few thousand points each, edges included; what they call."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math import ERRORS, MATH
from tests.codegen.llvm.machine_code import HOST, MACHINES, NUMPY, mapped, run, symbols_of

mp = mpmath.mp
BINARY = {"atan2", "divide", "power", "remainder"}

# Largest errors allowed, in ulp: f32, f64. The measured ones are in math/README.md.
BOUNDS = {
    "acos": (1.0, 1.0),
    "acosh": (2.0, 2.0),
    "asin": (1.0, 1.0),
    "asinh": (2.0, 2.0),
    "atan2": (2.0, 2.0),
    "atanh": (2.0, 2.0),
    "cbrt": (1.0, 1.0),
    "cosh": (2.0, 2.0),
    "cosine": (1.1, 1.0),
    "erf": (1.5, 1.5),
    "exp2": (1.2, 1.2),  # 0.9 where there is fma
    "exponential": (1.0, 1.2),
    "exponential-minus-one": (1.05, 1.2),
    "log": (1.0, 1.0),
    "log-plus-one": (1.0, 1.0),
    "log2": (1.0, 1.0),
    "logistic": (2.2, 2.2),  # 1.4 where fma shows the remainder of the division
    "power": (1.5, 1.5),
    "rsqrt": (1.5, 1.5),
    "sine": (1.1, 1.0),
    "sinh": (2.0, 2.0),
    "tan": (2.5, 2.5),
    "tanh": (1.5, 1.5),
}
REFERENCE = {
    "acos": mpmath.acos,
    "acosh": mpmath.acosh,
    "asin": mpmath.asin,
    "asinh": mpmath.asinh,
    "atan2": mpmath.atan2,
    "atanh": mpmath.atanh,
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "cosh": mpmath.cosh,
    "cosine": mpmath.cos,
    "erf": mpmath.erf,
    "exp2": lambda x: mpmath.power(2, x),
    "exponential": mpmath.exp,
    "exponential-minus-one": mpmath.expm1,
    "log": mpmath.log,
    "log-plus-one": mpmath.log1p,
    "log2": lambda x: mpmath.log(x, 2),
    "logistic": lambda x: 1 / (1 + mpmath.exp(-x)),
    "power": mpmath.power,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "sine": mpmath.sin,
    "sinh": mpmath.sinh,
    "tan": mpmath.tan,
    "tanh": mpmath.tanh,
}
# Where points are drawn: mostly where the function is interesting.
DOMAIN = {
    "acos": (-1, 1),
    "asin": (-1, 1),
    "atanh": (-1, 1),
    "acosh": (1, 40),
    "log": (0, 4),
    "log2": (0, 4),
    "rsqrt": (0, 4),
    "log-plus-one": (-1, 3),
}
EDGES = (
    "0 -0 inf -inf nan 1 -1 0.5 -0.5 2 -2 3 -3 1e-45 -1e-45 1e-40 1.2e-38 5e-324 1e-310 3e-308"
    " 1.7e308 3.4e38 -3.4e38 1e30 -1e30 88.72 -87.4 -103.9 709.78 710.4 89.4 -745.1 0.625 4 6"
    " 1e5 1e6 16777215 9007199254740993 1.5 2.5 -2.5 0.49999997 3.1415927 1.5707963267948966"
    " 1e22 -1e300"
).split()


def edges(kind):
    """Values where functions go wrong."""
    with np.errstate(all="ignore"):
        return np.array([float(w) for w in EDGES]).astype(NUMPY[kind])


def points(name, kind, count, rng):
    """One or two arrays of finite inputs in the domain of a function."""
    low, high = DOMAIN.get(name, (-6, 6))
    near = rng.uniform(low, high, count)
    tiny = rng.standard_normal(count // 4) * 10.0 ** rng.uniform(-30, 1, count // 4)
    large = rng.standard_normal(count // 4) * 10.0 ** rng.uniform(0, 3, count // 4)
    huge = rng.standard_normal(count // 8) * 10.0 ** rng.uniform(3, 38, count // 8)
    with np.errstate(all="ignore"):
        x = np.concatenate([near, tiny, large, huge]).astype(NUMPY[kind])
    inside = np.isfinite(x)
    if name in DOMAIN:
        inside &= (x > low) & (x < high) if low < 0 else x > low
        inside |= (name == "log-plus-one") & (x > -1) & np.isfinite(x)
        inside |= (name in ("log", "log2", "acosh")) & (x > low) & np.isfinite(x)
    x = x[inside]
    if name not in BINARY:
        return [x]
    y = rng.permutation(x)
    return [np.abs(x), y] if name == "power" else [x, y]


def ulps(got, values, kind):
    """Errors in units of the last digit of the exact values (mpf), as floats."""
    digits, lowest = (24, -126) if kind == "f32" else (53, -1022)
    largest = (2 - mpmath.mpf(2) ** (1 - digits)) * mpmath.mpf(2) ** (-lowest + 1)
    errors = []
    for g, v in zip(got.tolist(), values):
        if abs(v) > largest:  # may be infinite, or the largest number
            errors.append(0.0 if abs(g) >= float(largest) else math.inf)
            continue
        exponent = max(mpmath.frexp(v)[1] - 1, lowest) if v else lowest
        unit = mpmath.ldexp(1, exponent - digits + 1)
        errors.append(float(abs(mpmath.mpf(g) - v) / unit) if math.isfinite(g) else math.inf)
    return np.array(errors)


@pytest.mark.parametrize("machine", [HOST, MACHINES["sse2"]], ids=["host", "sse2"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", BOUNDS)
def test_errors_are_bounded(name, kind, machine):
    # The same points everywhere; fewer where a second machine only has to agree.
    count = 1200 if machine is HOST else 300
    inputs = points(name, kind, count, np.random.default_rng(len(name)))
    body = MATH[name]
    (got,) = run(body, inputs, [kind] * len(inputs), [kind], 16, machine)
    mp.prec = 200
    if name in ("sine", "cosine", "tan"):
        mp.prec = 400
    exact = [REFERENCE[name](*map(mpmath.mpf, row)) for row in zip(*(x.tolist() for x in inputs))]
    errors = ulps(got, exact, kind)
    bound = BOUNDS[name][kind == "f64"]
    worst = int(np.argmax(errors))
    shown = [x[worst] for x in inputs], got[worst], exact[worst]
    assert errors[worst] <= bound, (shown, errors[worst])


def of_numpy(name, inputs):
    """numpy's value in twice the precision, for infinities, NaN and signs."""
    wide = [x.astype(np.float64 if x.dtype == np.float32 else np.longdouble) for x in inputs]
    functions = {
        "atan2": np.arctan2,
        "divide": np.divide,
        "power": np.power,
        "remainder": np.fmod,
        "acos": np.arccos,
        "acosh": np.arccosh,
        "asin": np.arcsin,
        "asinh": np.arcsinh,
        "atanh": np.arctanh,
        "cosine": np.cos,
        "exponential": np.exp,
        "exponential-minus-one": np.expm1,
        "log-plus-one": np.log1p,
        "sine": np.sin,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "logistic": lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))),
        "erf": lambda x: np.array([math.copysign(math.erf(v), v) for v in x.astype(float)]),
        "round-nearest-even": np.rint,
        "round-nearest-afz": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
        "sign": lambda x: np.where(x == 0, x, np.sign(x)),
    }
    with np.errstate(all="ignore"):
        return np.asarray(functions.get(name, getattr(np, name, None))(*wide))


@pytest.mark.parametrize("machine", [HOST, MACHINES["sse2"]], ids=["host", "sse2"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted(set(MATH) - {"is-finite"}))
def test_edges(name, kind, machine):
    inputs = [edges(kind)]
    if name in BINARY:
        inputs = [v.ravel().copy() for v in np.meshgrid(inputs[0], inputs[0])]
    (got,) = run(MATH[name], inputs, [kind] * len(inputs), [kind], 8, machine)
    with np.errstate(all="ignore"):
        want = of_numpy(name, inputs).astype(NUMPY[kind])
        close = np.abs(got - want) <= 4 * np.spacing(np.abs(want))
    same = close | (got == want) | (np.isnan(got) & np.isnan(want))
    same &= np.isnan(got) | (np.signbit(got) == np.signbit(want))
    wrong = np.flatnonzero(~same)[:5]
    assert same.all(), [([x[k] for x in inputs], got[k], want[k]) for k in wrong]


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_remainder_is_exact_however_large_the_quotient(kind):
    rng = np.random.default_rng(3)
    bits = {"f32": (np.uint32, 2**32), "f64": (np.uint64, 2**64)}[kind]
    x, y = (rng.integers(0, bits[1], 3000, dtype=bits[0]).view(NUMPY[kind]) for _ in range(2))
    for machine in (HOST, MACHINES["sse2"]):
        (got,) = run(MATH["remainder"], [x, y], [kind] * 2, [kind], 16, machine)
        with np.errstate(all="ignore"):
            assert np.array_equal(got, np.fmod(x, y), equal_nan=True)


def test_is_finite():
    x = np.array([0, 1e-45, 3e38, np.inf, -np.inf, np.nan], np.float32)
    (got,) = run(MATH["is-finite"], [x], ["f32"], ["i1"], 4)
    assert got.tolist() == [True, True, True, False, False, False]


@pytest.mark.parametrize("machine", [HOST, MACHINES["sse2"]], ids=["host", "sse2"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", ["sine", "cosine", "tan"])
def test_angles_near_multiples_of_a_right_one(name, kind, machine):
    """There x and its multiple of pi/2 cancel; f32 once lost 168 ulp at 20145.4629."""
    mp.prec = 1400  # angles of 1000 binary digits
    counts = [*range(1, 400), *(int(1.07**k) for k in range(90, 480))]
    if kind == "f64":
        counts += [int(1.07**k) for k in range(480, 4000, 7)]
    near = [
        float(n * mpmath.pi / 2) for n in counts if n * 1.6 < (3e38 if kind == "f32" else 1e300)
    ]
    x = np.array([*near, 20145.462890625, -93669.7265625]).astype(NUMPY[kind])
    x = np.concatenate([x, np.nextafter(x, NUMPY[kind](0))])
    (got,) = run(MATH[name], [x], [kind], [kind], 16, machine)
    exact = [REFERENCE[name](mpmath.mpf(v)) for v in x.tolist()]
    errors = ulps(got, exact, kind)
    assert errors.max() <= 2.5, x[int(np.argmax(errors))]


@pytest.mark.parametrize("lanes", [1, 3, 64])
@pytest.mark.parametrize("name", ["exponential", "log", "sine", "power", "remainder", "erf"])
def test_lanes_do_not_matter(name, lanes):
    rng = np.random.default_rng(5)
    inputs = [rng.uniform(0.1, 1e6, 130).astype(np.float32) for _ in range(1 + (name in BINARY))]
    made = [run(MATH[name], inputs, ["f32"] * len(inputs), ["f32"], n)[0] for n in (16, lanes)]
    assert np.array_equal(*made)


def test_one_reduction_serves_sine_and_cosine():
    e = Emit("f", HOST, [("ptr", "p")])
    x = e.load(e.args[0], "f32", 16)
    MATH["sine"](e, x)
    alone = len(e.body_text())
    MATH["cosine"](e, x)
    assert len(e.body_text()) < 1.3 * alone


def test_flags_do_not_reach_the_error_terms():
    e = Emit("f", HOST, [("ptr", "p")])
    e.flags = "contract "
    MATH["power"](e, e.load(e.args[0], "f32", 8), e.load(e.args[0], "f32", 8))
    assert "contract" not in e.body_text() and e.flags == "contract "


def test_narrow_floats_are_refused():
    e = Emit("f", HOST, [("ptr", "p")])
    with pytest.raises(HloError, match="f32 and f64, not f16"):
        MATH["sine"](e, e.load(e.args[0], "f16", 8))


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_is_called(machine):
    target = MACHINES[machine]
    functions = []
    for number, name in enumerate(sorted(MATH)):
        for kind, lanes in (("f32", 1), ("f32", 16), ("f64", 1), ("f64", 3)):
            arity = 2 if name in BINARY else 1
            result = "i1" if name == "is-finite" else kind
            tag = f"f{number}_{kind}_{lanes}"
            functions.append(mapped(MATH[name], [kind] * arity, [result], lanes, target, tag))
    assert symbols_of(functions, target) == set()


def test_every_inexact_function_states_its_error():
    exact = {"ceil", "divide", "floor", "is-finite", "remainder", "sign", "sqrt"}
    assert set(ERRORS) == set(MATH) - exact - {"round-nearest-afz", "round-nearest-even"}
    for name, errors in ERRORS.items():
        assert all(e <= b for e, b in zip(errors, BOUNDS[name])), name


@pytest.mark.parametrize("name", ["erf", "tanh"])
@pytest.mark.parametrize("machine", [HOST, MACHINES["avx2"]])
def test_a_number_has_one_value_wherever_it_stands(name, machine):
    """Both sides of the borders of intervals, and rows that are no whole registers."""
    if machine is not HOST and not HOST.has_avx2:
        pytest.skip("this machine cannot run it")
    borders = np.array([k / 64 for k in range(640)], np.float32)
    x = np.concatenate([borders, np.nextafter(borders, 0), -borders, edges("f32")])
    x = np.resize(x, x.size // 840 * 840 + 840)
    [want] = run(MATH[name], [x], ["f32"], ["f32"], 8, machine)
    exact = np.array([float(REFERENCE[name](mp.mpf(float(v)))) for v in x])
    usual = np.isfinite(x) & (np.abs(x) > 1e-30)
    error = np.abs(want - exact)[usual] / np.spacing(np.abs(exact[usual]).astype(np.float32))
    assert error.max() < 1.5
    for lanes in (1, 3, 5, 12, 24, 40):
        [found] = run(MATH[name], [x], ["f32"], ["f32"], lanes, machine)
        np.testing.assert_array_equal(found.view(np.int32), want.view(np.int32))
