"""Elementwise arithmetic compared with XLA on the CPU.

Where XLA's CPU is known to be less exact than the definition it is not asked: it flushes
denormals to zero, its complex functions lose signs of zero and infinities, its integer power reads
only the low bits of large exponents, its s4 popcnt counts the neighbour too.
"""

import pytest

pytest.importorskip("jax")
pytest.importorskip("jaxlib")

from typing import Any

import jax
import numpy as np
from jax import lax

from hloom.types.dtype import BY_NAME
from tests.interp.one_op import drawn, run
from tests.peer.xla_op import run_op

FLOATS = ["f16", "bf16", "f32", "f64"]
INTEGERS = ["s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.5, -2.5, 3.0, 1e-30, -1e30, 88.9]


def assert_ulps(got: Any, xla: Any, ulps: float, *operands: Any) -> None:
    """Equal NaNs, infinities and signs of zero; else at most so many units apart."""
    assert got.dtype == xla.dtype
    assert got.shape == xla.shape
    spacing = 2.0 ** -BY_NAME[run_name(got)].mantissa_bits
    smallest = 2.0 ** (1 - BY_NAME[run_name(got)].exponent_bias)
    a, b = got.astype(np.float64), xla.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= ulps * spacing * np.abs(b) + (ulps > 0) * smallest
    same = np.where(a == 0, (b == 0) & (np.signbit(a) == np.signbit(b)), (a == b) | near)
    bad = ~(same | (np.isnan(a) & np.isnan(b)) | (near & (b != 0)))
    assert not bad.any(), [(a[bad][:5], b[bad][:5]), *(x[bad][:5] for x in operands)]


def run_name(array: Any) -> str:
    return next(t.name for t in BY_NAME.values() if t.is_array_element and t.numpy == array.dtype)


def floats(type_name: str, count: int = 200) -> Any:
    rng = np.random.default_rng(11)
    spread = rng.normal(size=count) * 2.0 ** rng.integers(-10, 10, count)
    with np.errstate(over="ignore"):
        made = np.concatenate([SPECIAL, rng.normal(size=count), spread]).astype(
            BY_NAME[type_name].numpy
        )
    smallest = 2.0 ** (1 - BY_NAME[type_name].exponent_bias)
    wide = np.abs(made.astype(np.float64))
    return made[~((wide > 0) & (wide < smallest))]


EXACT = (
    "abs ceil floor negate round-nearest-even round-nearest-afz sign sqrt "
    "add subtract multiply divide remainder maximum minimum"
).split()


@pytest.mark.parametrize("type_name", FLOATS)
@pytest.mark.parametrize(
    "opcode",
    (
        "abs cbrt ceil cosine erf exponential exponential-minus-one floor log log-plus-one "
        "logistic negate round-nearest-even round-nearest-afz rsqrt sign sine sqrt tan tanh"
    ).split(),
)
def test_float_unary(opcode: str, type_name: str) -> None:
    x = floats(type_name)
    ulps = 0 if opcode in EXACT else 16 if opcode == "log-plus-one" else 4
    assert_ulps(run(opcode, x), run_op(opcode, x), ulps, x)


@pytest.mark.parametrize("type_name", FLOATS)
@pytest.mark.parametrize(
    "opcode", "add subtract multiply divide remainder maximum minimum atan2 power".split()
)
def test_float_binary(opcode: str, type_name: str) -> None:
    x = floats(type_name, 20)
    x, y = np.repeat(x, len(x)), np.tile(x, len(x))
    xla = run_op(opcode, x, y)
    wide = np.abs(xla.astype(np.float64))
    kept = ~(wide < 2.0 ** (2 - BY_NAME[type_name].exponent_bias)) | (x.astype(float) == 0)
    if opcode == "power":  # ours overflows where the exact power does; XLA's by its own rounding
        kept &= ~((wide < np.inf) & (wide > 1e30))
    got = run(opcode, x, y)
    assert_ulps(got[kept], xla[kept], 0 if opcode in EXACT else 4, x[kept], y[kept])


@pytest.mark.parametrize("type_name", ["f32", "f64"])
@pytest.mark.parametrize("name", "acos acosh asin asinh atanh sinh cosh".split())
def test_functions_that_jax_composes(name: str, type_name: str) -> None:
    x = floats(type_name)
    xla = np.asarray(jax.jit(getattr(lax, name))(x))
    got = run(name, x)
    kept = np.abs(got.astype(float)) < 1e30
    assert_ulps(got[kept], xla[kept], 64, x[kept])


@pytest.mark.parametrize("type_name", INTEGERS)
@pytest.mark.parametrize(
    "opcode",
    (
        "add subtract multiply divide remainder maximum minimum and or xor power "
        "shift-left shift-right-logical shift-right-arithmetic"
    ).split(),
)
def test_integer_binary(opcode: str, type_name: str) -> None:
    t = BY_NAME[type_name]
    x, y = drawn((80,), type_name), drawn((80,), type_name, 1)
    if opcode == "power":
        y = np.where(y.astype(np.int64) % 8 < 8, y.astype(np.int64) % 8, 0).astype(np.int8)
        y = y.astype(t.numpy)
    edges = np.array([0, -1, 1, 2], np.int8).astype(t.numpy)
    x = np.concatenate([x, np.repeat(x[:20], 4)])
    y = np.concatenate(
        [y, np.tile(edges if opcode != "power" or t.is_signed else edges[[0, 2, 3, 0]], 20)]
    )
    got, xla = run(opcode, x, y), run_op(opcode, x, y)
    assert got.dtype == xla.dtype
    assert (got == xla).all(), (x[got != xla], y[got != xla])


@pytest.mark.parametrize("type_name", INTEGERS)
@pytest.mark.parametrize(
    "opcode", ["abs", "negate", "not", "sign", "popcnt", "count-leading-zeros"]
)
def test_integer_unary(opcode: str, type_name: str) -> None:
    if opcode in ("abs", "sign") and not BY_NAME[type_name].is_signed:
        return  # StableHLO, our way to XLA, has neither for unsigned integers
    if opcode == "popcnt" and type_name == "s4":
        return
    x = drawn((100,), type_name)
    assert (run(opcode, x) == run_op(opcode, x)).all()


# -- complex -------------------------------------------------------------------------------


def complex_points(type_name: str, count: int = 300) -> Any:
    rng = np.random.default_rng(5)
    made = rng.normal(size=(2, count)) * 2.0 ** rng.integers(-6, 4, (2, count))
    return (made[0] + 1j * made[1]).astype(BY_NAME[type_name].numpy)


def assert_complex_near(got: Any, xla: Any, tolerance: float) -> None:
    assert got.dtype == xla.dtype
    error = np.abs(got - xla) / np.abs(xla)
    assert error.max() <= tolerance, error.max()


@pytest.mark.parametrize("type_name", ["c64", "c128"])
@pytest.mark.parametrize(
    "opcode",
    (
        "cosine exponential exponential-minus-one log log-plus-one logistic negate rsqrt sign "
        "sine sqrt tan tanh"
    ).split(),
)
def test_complex_unary(opcode: str, type_name: str) -> None:
    z = complex_points(type_name)
    assert_complex_near(run(opcode, z), run_op(opcode, z), 2e-5 if type_name == "c64" else 1e-13)


@pytest.mark.parametrize("type_name", ["c64", "c128"])
@pytest.mark.parametrize("name", "acos acosh asin asinh atanh cosh sinh".split())
def test_complex_functions_that_jax_composes(name: str, type_name: str) -> None:
    special = [
        0,
        1,
        -1,
        2,
        -2,
        complex(0, 2),
        complex(0, -2),
        1e-12 + 1e-13j,
        1e15 + 1e14j,
        1 + 1e-12j,
    ]
    z = np.concatenate([complex_points(type_name), special]).astype(BY_NAME[type_name].numpy)
    if name in ("cosh", "sinh"):  # JAX's lose all digits near 0
        z = complex_points(type_name)
    xla, got = np.asarray(jax.jit(getattr(lax, name))(z)), run(name, z)
    finite = np.isfinite(got) & (np.abs(got) > 0)
    assert np.array_equal(got[~finite & (got == 0)], xla[~finite & (got == 0)])
    assert_complex_near(got[finite], xla[finite], 2e-5 if type_name == "c64" else 1e-13)


@pytest.mark.parametrize("type_name", ["c64", "c128"])
@pytest.mark.parametrize("opcode", "add subtract multiply divide power atan2".split())
def test_complex_binary(opcode: str, type_name: str) -> None:
    x = complex_points(type_name)
    y = x[::-1].copy()
    tolerance = 2e-4 if opcode in ("power", "atan2") else 1e-5
    xla = run_op(opcode, x, y)
    usual = np.abs(xla) > 1e-20
    got = run(opcode, x, y)
    assert_complex_near(
        got[usual], xla[usual], tolerance if type_name == "c64" else tolerance * 1e-8
    )


# -- comparison, conversion, precision -----------------------------------------------------


@pytest.mark.parametrize("type_name", FLOATS)
@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
@pytest.mark.parametrize("order", ["FLOAT", "TOTALORDER"])
def test_compare(order: str, direction: str, type_name: str) -> None:
    x = floats(type_name, 5)
    x, y = np.repeat(x, len(x)), np.tile(x, len(x))
    xla = run_op(
        "compare",
        x,
        y,
        result=f"pred[{len(x)}]",
        attributes=f"direction={direction}, type={order}",
    )
    assert (run("compare", x, y, result="pred", direction=direction, type=order) == xla).all()


@pytest.mark.parametrize("type_name", [*FLOATS, "s8", "u32"])
def test_clamp(type_name: str) -> None:
    values = floats(type_name, 0)[:9] if type_name in FLOATS else drawn((9,), type_name)
    low, x, high = (v.ravel() for v in np.meshgrid(values, values, values, indexing="ij"))
    got, xla = run("clamp", low, x, high), run_op("clamp", low, x, high)
    if type_name in FLOATS:
        assert_ulps(got, xla, 0, low, x, high)
    else:
        assert (got == xla).all()


CONVERTED = ["pred", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", *FLOATS]
CONVERTED += ["f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "c64", "c128"]


@pytest.mark.parametrize("target", CONVERTED)
@pytest.mark.parametrize("source", ["pred", "s8", "u16", "s32", "u64", *FLOATS, "f8e4m3fn"])
def test_convert(source: str, target: str) -> None:
    t = BY_NAME[source]
    x = floats(source) if t.is_floating and t.bits > 8 else drawn((200,), source)
    with np.errstate(all="ignore"):
        xla = run_op("convert", x, result=f"{target}[{len(x)}]")
    got = run("convert", x, result=target)
    assert got.dtype == xla.dtype
    wide = np.complex128 if BY_NAME[target].is_complex else np.float64
    if BY_NAME[target].is_integral:
        assert (got == xla).all(), (x[got != xla], got[got != xla], xla[got != xla])
        return
    a, b = got.astype(wide), xla.astype(wide)
    denormal = np.abs(b) < 2.0 ** (1 - max(1, BY_NAME[target].exponent_bias))
    with np.errstate(invalid="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (denormal & (np.abs(a - b) < 1e-30))
    assert same.all(), (x[~same], a[~same], b[~same])


@pytest.mark.parametrize("bits", [(5, 10), (8, 7), (5, 2), (4, 3), (8, 0), (2, 0), (1, 1)])
@pytest.mark.parametrize("type_name", FLOATS)
def test_reduce_precision(type_name: str, bits: tuple[int, int]) -> None:
    x = floats(type_name)
    xla = run_op(
        "reduce-precision", x, attributes=f"exponent_bits={bits[0]}, mantissa_bits={bits[1]}"
    )
    got = run("reduce-precision", x, exponent_bits=bits[0], mantissa_bits=bits[1])
    assert_ulps(got, xla, 0, x)


@pytest.mark.parametrize(
    ("source", "target"),
    [("f32", "u32"), ("f32", "u8"), ("f64", "s16"), ("u8", "f32"), ("s16", "bf16"), ("bf16", "u8")],
)
def test_bitcast_convert(source: str, target: str) -> None:
    wide, narrow = BY_NAME[source].bits, BY_NAME[target].bits
    dims = (6, narrow // wide) if wide < narrow else (6,)
    x = drawn(dims, source)
    result = (6, wide // narrow) if wide > narrow else (6,)
    text = ",".join(map(str, result))
    xla = run_op("bitcast-convert", x, result=f"{target}[{text}]")
    got = run("bitcast-convert", x, result=target)
    assert got.shape == xla.shape
    assert got.tobytes() == xla.tobytes()
