"""CHLO's special functions against mpmath: a few units in the last place, and the corners."""

import math

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("jaxlib", reason="StableHLO is read with jaxlib")
pytest.importorskip("mpmath", reason="the exact values come from mpmath")

import mpmath as mp

import hloom
from hloom.frontends.stablehlo.read import module_of_text
from hloom.interp.elementwise_complex import joined

mp.mp.dps = 40
INF, NAN = np.inf, np.nan


def computed(name: str, *arguments: np.ndarray) -> dict[str, np.ndarray]:
    """The function by the interpreter and natively."""
    element = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16"}
    element["complex128"] = "complex<f64>"
    kind = f"tensor<{len(arguments[0])}x{element[arguments[0].dtype.name]}>"
    takes = ", ".join(f"%a{k}: {kind}" for k in range(len(arguments)))
    given = ", ".join(f"%a{k}" for k in range(len(arguments)))
    module = module_of_text(
        f"func.func public @main({takes}) -> {kind} {{\n"
        f'  %0 = "chlo.{name}"({given}) : ({", ".join([kind] * len(arguments))}) -> {kind}\n'
        f"  return %0 : {kind}\n}}"
    )
    hloom.verify(module)
    return {
        "interpreted": hloom.evaluate(module, *arguments).array,
        "compiled": np.asarray(hloom.compile(module)(*arguments)),
    }


def uniform(low, high, count=150, seed=0):
    return np.random.default_rng(seed).uniform(low, high, count)


def powers(low, high, count=40):
    return 10 ** uniform(low, high, count, 1)


GAMMA = np.concatenate([uniform(1e-3, 0.5), uniform(0.5, 2.5), uniform(2.5, 9), powers(1, 30)])
ERF_INV = np.concatenate([uniform(-0.999, 0.999), 1 - powers(-6.5, -3), powers(-10, -1)])

# Function, arguments, units in the last place that are allowed in double and single precision.
ACCURATE = {
    "lgamma": (mp.loggamma, [GAMMA], 6, 6),
    "digamma": (mp.digamma, [GAMMA], 5, 5),
    "erfc": (mp.erfc, [np.concatenate([uniform(-6, 0.5), uniform(0.5, 9)])], 6, 6),
    "erf_inv": (mp.erfinv, [ERF_INV], 6, 6),
    "bessel_i1e": (
        lambda x: mp.exp(-abs(x)) * mp.besseli(1, x),
        [np.concatenate([uniform(-8, 8), powers(0.9, 3)])],
        8,
        8,
    ),
    "zeta": (mp.zeta, [uniform(1.05, 20), uniform(0.05, 30, seed=3)], 12, 8),
    "polygamma": (
        lambda n, x: mp.psi(int(n), x),
        [np.floor(uniform(0, 12)), uniform(0.1, 30, seed=3)],
        12,
        10,
    ),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", sorted(ACCURATE))
def test_few_units_in_the_last_place(name, dtype):
    exact, arguments, double, single = ACCURATE[name]
    given = [x.astype(dtype) for x in arguments]
    wanted = [mp.re(exact(*(mp.mpf(float(a)) for a in row))) for row in zip(*given, strict=True)]
    rounded = np.array([dtype(float(w)) for w in wanted])
    spacing = np.spacing(np.abs(rounded)).astype(np.float64)
    allowed = double if dtype is np.float64 else single
    for how, found in computed(name, *given).items():
        units = [abs(float(mp.mpf(float(f)) - w) / s) for f, w, s in zip(found, wanted, spacing)]
        worst = int(np.argmax(units))
        assert units[worst] <= allowed, (how, units[worst], [x[worst] for x in given])


CORNERS = {
    "lgamma": [(0.0, INF), (-0.0, INF), (-2.0, INF), (1.0, 0.0), (2.0, 0.0), (INF, INF)]
    + [(-INF, INF), (NAN, NAN), (-0.5, 1.2655121234846454), (1e306, INF)]
    + [(-2.5e-308, float(mp.loggamma(2.5e-308)))],
    "digamma": [(INF, INF), (NAN, NAN), (-1.0, NAN), (1.0, -0.5772156649015329)]
    + [(-0.5, 0.03648997397857652)],
    "erfc": [(0.0, 1.0), (-0.0, 1.0), (INF, 0.0), (-INF, 2.0), (NAN, NAN), (30.0, 0.0)],
    "erf_inv": [(0.0, 0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (-2.0, NAN), (NAN, NAN)],
    "bessel_i1e": [(0.0, 0.0), (INF, 0.0), (-INF, 0.0), (NAN, NAN)],
}
PAIRS = {
    "zeta": [(1.0, 2.0, INF), (0.5, 2.0, NAN), (2.0, 0.0, INF), (2.0, 1.0, 1.6449340668482264)]
    + [(3.0, -1.0, NAN), (NAN, 1.0, NAN), (2.0, NAN, NAN), (0.0, 0.0, INF), (-1.0, 0.0, NAN)]
    + [(1e9, 2.0, 0.0), (1e300, 1.7e308, 0.0), (1e9, 0.9, INF), (1e9, 1.0, 1.0)],
    "polygamma": [(-1.0, 2.0, NAN), (0.5, 2.0, NAN), (0.0, 1.0, -0.5772156649015329)]
    + [(1.0, 1.0, 1.6449340668482264), (25.0, 3.0, float(mp.psi(25, 3)))],
}


@pytest.mark.parametrize("name", sorted(CORNERS | PAIRS))
def test_corners(name):
    *columns, wanted = np.array((CORNERS | PAIRS)[name]).T
    for how, found in computed(name, *columns).items():
        tolerance = 1e-7 if name == "polygamma" else 1e-14
        assert np.allclose(found, wanted, tolerance, 0, equal_nan=True), (how, found, wanted)


def test_of_16_bits_erfc_is_rounded_once():
    bits = np.arange(1 << 16, dtype=np.uint16)
    for dtype, digits, lowest in ((np.float16, 11, -14), (ml_dtypes.bfloat16, 8, -126)):
        x = bits.view(dtype)
        x = x[np.isfinite(x.astype(float))]
        exact = np.array([math.erfc(v) for v in x.astype(float)])
        unit = np.ldexp(1.0, np.maximum(np.frexp(exact)[1] - 1, lowest) - digits + 1)
        for how, found in computed("erfc", x).items():
            errors = np.abs(found.astype(float) - exact) / unit
            if (how, dtype) == ("compiled", ml_dtypes.bfloat16):  # subnormal results count as zero
                errors[(exact < 2.0**-126) & (found == 0)] = 0
            assert errors.max() < 0.5001, (how, dtype, x[errors.argmax()])


def test_corners_in_single_precision():
    x = np.array([0.0, -0.0, INF, -INF, NAN, 11, -11, 1e30], np.float32)
    for found in computed("erfc", x).values():
        assert np.array_equal(found, np.float32([1, 1, 0, 2, NAN, 0, 2, 0]), equal_nan=True)
    x = np.array([0.0, -0.0, 1, -1, 1.5, -INF, NAN], np.float32)
    for found in computed("erf_inv", x).values():
        assert np.array_equal(found, np.float32([0, 0, INF, -INF, NAN, NAN, NAN]), equal_nan=True)
        assert np.signbit(found[:2]).tolist() == [False, True]


def test_at_1_lgamma_is_not_minus_0():
    for found in computed("lgamma", np.array([1.0, 2.0])).values():
        assert not np.any(np.signbit(found))


def test_the_angle_of_complex_numbers_has_annex_gs_limits():
    s = np.array([0.0, -0.0, 1, -2, INF, -INF, NAN, 1e-3])
    x, y = np.meshgrid(s, s)
    z = joined(x.ravel(), y.ravel())
    with np.errstate(all="ignore"):
        want = np.arctan(z)
    for found in map(np.asarray, computed("atan", z).values()):
        for got, right in ((np.real(found), np.real(want)), (np.imag(found), np.imag(want))):
            assert np.allclose(got, right, 1e-13, 0, equal_nan=True)
            assert np.array_equal(np.signbit(got)[got == 0], np.signbit(right)[got == 0])


@pytest.mark.parametrize("name", ["lgamma", "erf_inv", "digamma"])
def test_half_precision_is_rounded_once(name):
    import ml_dtypes

    for dtype in (np.float16, ml_dtypes.bfloat16):
        x = np.linspace(0.1, 0.9, 64).astype(dtype)
        wide = computed(name, x.astype(np.float32))["interpreted"]
        assert np.array_equal(computed(name, x)["interpreted"], wide.astype(dtype))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_next_after_is_numpys(dtype):
    info = np.finfo(dtype)
    some = np.array([0, -0.0, 1, -1, info.max, info.min, info.tiny, INF, -INF, NAN, 2.5], dtype)
    x, y = (v.reshape(-1) for v in np.meshgrid(some, some))
    for found in computed("next_after", x, y).values():
        assert np.array_equal(found, np.nextafter(x, y), equal_nan=True)


@pytest.mark.slow
def test_coefficients_are_those_that_mpmath_finds():
    from tests.frontends.stablehlo.coefficients import TARGET, text

    assert TARGET.read_text() == text()
