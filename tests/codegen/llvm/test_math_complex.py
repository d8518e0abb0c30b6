"""Complex functions against the interpreter's: special values, ordinary and extreme ones."""

import numpy as np
import pytest

from hloom.codegen.llvm.math import COMPLEX_MATH
from hloom.interp.elementwise_complex import COMPLEX_BINARY, COMPLEX_UNARY, joined, magnitude
from tests.codegen.llvm.machine_code import HOST, MACHINES, NUMPY, mapped, run, symbols_of

COMPLEX = {"f32": np.complex64, "f64": np.complex128}
# The interpreter's own errors: it takes logarithms of cancelled sums, and large angles.
LOOSE = {"atan2": 1e-12, "power": 1e-13}


def reference(name, inputs):
    """The interpreter's value in c128, as parts."""
    function = COMPLEX_UNARY.get(name) or COMPLEX_BINARY.get(name) or magnitude
    with np.errstate(all="ignore"):
        made = function(*(z.astype(np.complex128) for z in inputs))
    return [made] if name == "abs" else [made.real, made.imag]


def computed(name, inputs, part, machine=HOST):
    """Ours, as parts."""
    flat = [np.ascontiguousarray(p) for z in inputs for p in (z.real, z.imag)]

    def body(e, *v):
        return COMPLEX_MATH[name](e, *zip(v[::2], v[1::2]))

    results = [part] * (1 if name == "abs" else 2)
    return run(body, flat, [part] * len(flat), results, 8, machine)


def drawn(kind, part, binary):
    """Operands: `special` pairs of zeros, infinities and NaN, or random ones."""
    rng = np.random.default_rng(7)
    if kind == "special":
        s = np.array([0.0, -0.0, 1, -1, 0.5, -2, np.inf, -np.inf, np.nan, 1e-3, 30, -30, 800])
        z = joined(*(v.ravel() for v in np.meshgrid(s, s)))
        if binary:
            z = z[::3]
            return [v.ravel().astype(COMPLEX[part]) for v in np.meshgrid(z, z)]
    else:
        scale = 10.0 ** rng.integers(-30, 30, (2, 1000)) if kind == "wide" else 1.0
        z = joined(*(rng.standard_normal((2, 1000)) * scale))
    return [z.astype(COMPLEX[part]), z[::-1].astype(COMPLEX[part])][: 1 + binary]


# For these the interpreter's value is a measure only where it is well conditioned.
CASES = [
    (name, kind)
    for name in sorted(COMPLEX_MATH)
    for kind in ("special", "normal", "wide")
    if kind == "normal" or name not in LOOSE
]


@pytest.mark.parametrize("part", ["f32", "f64"])
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_as_the_interpreter(name, kind, part):
    inputs = drawn(kind, part, name in COMPLEX_BINARY)
    got = computed(name, inputs, part)
    exact = reference(name, inputs)
    with np.errstate(all="ignore"):
        want = [v.astype(NUMPY[part]) for v in exact]
    # Errors count in units of the whole number: a small part may be lost beside a large one.
    size = np.max([np.where(np.isfinite(v), np.abs(v), 0) for v in want], axis=0)
    allowed = LOOSE.get(name, 4 * np.finfo(np.float64).eps)
    rounding = 1.0 if name == "abs" else 0.5  # magnitudes of f32 are computed in f32
    allowed += np.finfo(np.float32).eps * rounding if part == "f32" else 0.0
    for g, w in zip(got, want):
        with np.errstate(all="ignore"):
            close = np.abs(g - w) <= size * allowed + np.finfo(NUMPY[part]).smallest_subnormal
        same = close | (g == w) | (np.isnan(g) & np.isnan(w))
        if name not in LOOSE:
            same &= (g != 0) | (w != 0) | (np.signbit(g) == np.signbit(w))
        wrong = np.flatnonzero(~same)[:4]
        assert same.all(), [([z[k] for z in inputs], g[k], w[k]) for k in wrong]


def test_magnitudes_of_f32_beside_all_limits():
    edges = [0, 1e-45, 1e-38, 2e-20, 2**-45, 1, 1e10, 2**63, 1.9e19, 3e38, np.inf, np.nan]
    parts = np.array([x * sign for x in edges for sign in (1, -1)], np.float32)
    for real in (parts, parts[::-1][:8]):  # with all of them in a vector, and with few
        z = joined(*(v.ravel() for v in np.meshgrid(real, parts))).astype(np.complex64)
        (got,) = computed("abs", [z], "f32")
        want = np.hypot(z.real.astype(np.float64), z.imag.astype(np.float64))
        want = np.where(np.isnan(z.real) | np.isnan(z.imag), np.nan, want).astype(np.float32)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        with np.errstate(all="ignore"):
            same |= np.abs(got - want) <= 1.25 * np.spacing(want)
        assert same.all(), [(z[k], got[k], want[k]) for k in np.flatnonzero(~same)[:4]]


# Where the parts that are summed overflow or vanish: powers of such angles and numbers that turn
# 1e300 times are not measured.
FAR = np.array([0.0, 1, -1, 0.5, 1e-100, -3e-300, np.pi, 100, -1e100, 1e154, 1.7e308, -1.7e308])
FAR = np.append(FAR, [2.3e-308, -2.3e-308, np.inf, np.nan])


@pytest.mark.parametrize("name", sorted(set(COMPLEX_MATH) - {"power", "exp2", "atan2"}))
def test_far_from_1(name):
    z = joined(*(v.ravel() for v in np.meshgrid(FAR, FAR)))
    inputs = [z]
    if name in COMPLEX_BINARY:
        inputs = [v.ravel() for v in np.meshgrid(z[::5], z[::3])]
    for got, want in zip(computed(name, inputs, "f64"), reference(name, inputs)):
        with np.errstate(all="ignore"):
            close = np.abs(got - want) <= 1e-13 * np.abs(want) + 5e-324
        same = close | (got == want) | (np.isnan(got) & np.isnan(want))
        wrong = np.flatnonzero(~same)[:4]
        assert same.all(), [([v[k] for v in inputs], got[k], want[k]) for k in wrong]


@pytest.mark.parametrize(
    ("name", "z", "exact"),
    [
        ("asin", 1.7e308 + 1.7e308j, 0.7853981633974483 + 710.7665576640682j),
        ("acosh", -1.7e308 - 1.7e308j, 710.7665576640682 - 2.356194490192345j),
        ("atanh", 1 + 2e-308j, 354.59810432108304 + 0.7853981633974483j),
        ("exponential", 1000 + 1e-320j, complex(np.inf, 1.970049181575233e114)),
        ("sinh", 100 + 5e-324j, complex(1.3440585709080678e43, 6.640531658841574e-281)),
        ("sqrt", 1.7e308 + 1e-100j, complex(1.3038404810405297e154, 3.834824944236852e-255)),
    ],
)
def test_far_values(name, z, exact):
    real, imaginary = computed(name, [np.array([z])], "f64")
    assert np.allclose([real[0], imaginary[0]], [exact.real, exact.imag], rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", ["power", "atan2"])
def test_real_operands_of_powers_and_angles(name):
    x = np.array([0.5, 2, 3, 10, 1e-3, 7], np.float64)
    y = np.array([3.0, 0.5, -2, 0, 1, 1.25], np.float64)
    made = computed(name, [x.astype(complex), y.astype(complex)], "f64")
    want = np.power(x, y) if name == "power" else np.arctan2(x, y)
    assert np.allclose(made[0], want, rtol=1e-15) and np.all(made[1] == 0)


def test_magnitudes_neither_overflow_nor_vanish():
    z = np.array([3e300 + 4e300j, 3e-310 + 4e-310j, 3e-320j, 1.7e308 + 1e10j])
    (got,) = computed("abs", [z], "f64")
    assert np.allclose(got, np.abs(z), rtol=1e-15, atol=5e-324)
    quotient = computed("divide", [z, z], "f64")
    assert np.allclose(quotient[0], 1, rtol=1e-15) and np.allclose(quotient[1], 0, atol=1e-15)


@pytest.mark.parametrize(("part", "digits"), [("f32", 44), ("f64", 300)])
def test_quotients_of_all_sizes_beside_one_another(part, digits):
    # A vector has lanes that a reciprocal does for and lanes that Smith's method does for.
    rng = np.random.default_rng(11)
    scale = 10.0 ** rng.integers(-digits, digits * 7 // 8, (4, 4000))
    a, b, c, d = rng.standard_normal((4, 4000)) * scale
    x, y = joined(a, b).astype(COMPLEX[part]), joined(c, d).astype(COMPLEX[part])
    x[::97], y[::89], y[5::101] = 0, 0, np.inf
    got = computed("divide", [x, y], part)
    with np.errstate(all="ignore"):
        want = [v.astype(NUMPY[part]) for v in reference("divide", [x, y])]
        size = np.maximum(*[np.where(np.isfinite(v), np.abs(v), 0) for v in want])
    for g, w in zip(got, want):
        info = np.finfo(NUMPY[part])
        with np.errstate(all="ignore"):
            close = np.abs(g - w) <= 2 * info.eps * size + info.smallest_subnormal
        assert np.all(close | (g == w) | (np.isnan(g) & np.isnan(w)))
    # The same lane alone is the same number.
    alone = computed("divide", [x[8:16].copy(), y[8:16].copy()], part)
    assert all(np.array_equal(g[8:16], v, equal_nan=True) for g, v in zip(got, alone))


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_is_called(machine):
    target = MACHINES[machine]
    functions = []
    for number, name in enumerate(sorted(COMPLEX_MATH)):
        arity = 4 if name in COMPLEX_BINARY else 2

        def body(e, *v, name=name):
            return COMPLEX_MATH[name](e, *zip(v[::2], v[1::2]))

        results = ["f64"] * (1 if name == "abs" else 2)
        functions.append(mapped(body, ["f64"] * arity, results, 2, target, f"f{number}"))
    assert symbols_of(functions, target) == set()


@pytest.mark.parametrize("name", ["exponential", "sqrt", "divide", "tanh", "log-plus-one"])
def test_without_fused_multiply_add(name):
    inputs = drawn("normal", "f64", name in COMPLEX_BINARY)
    got = computed(name, inputs, "f64", MACHINES["sse2"])
    for g, w in zip(got, reference(name, inputs)):
        assert np.allclose(g, w, rtol=1e-13, atol=1e-15)
