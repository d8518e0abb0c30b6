"""Conversions against hloom/types/convert.py: every pattern, every kind of machine."""

import ml_dtypes
import numpy as np
import pytest

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.convert import (
    float_to_integer,
    is_nonzero,
    narrowed,
    storage_kind,
    widened,
)
from hloom.types.convert import converted
from hloom.types.dtype import dtype
from tests.codegen.llvm.machine_code import HOST, MACHINES, NUMPY, mapped, run, symbols_of

NARROW = (
    "f16 bf16 f8e5m2 f8e4m3fn f8e4m3 f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz f8e3m4 f8e8m0fnu"
    " f4e2m1fn f6e2m3fn f6e3m2fn"
).split()
INTEGERS = "s1 u1 s2 u2 s4 u4 s8 u8 s16 u16 s32 u32 s64 u64".split()
LOCAL = [HOST, MACHINES["sse2"]]
NAMES = ["host", "sse2"]


def unsigned(kind):
    return {"i8": np.uint8, "i16": np.uint16}[kind]


def same(got, want):
    """Equal bits, but for which NaN it is."""
    return (got == want) | (np.isnan(got) & np.isnan(want))


@pytest.mark.parametrize("machine", LOCAL, ids=NAMES)
@pytest.mark.parametrize("name", NARROW)
def test_every_pattern_widens(name, machine):
    narrow = dtype(name)
    kind = storage_kind(narrow)
    codes = np.arange(1 << narrow.bits).astype(unsigned(kind))
    want = codes.view(narrow.numpy).astype(np.float32)
    body = lambda e, x: widened(e, x, narrow)  # noqa: E731
    (got,) = run(body, [codes.view(NUMPY[kind])], [kind], ["f32"], 16, machine)
    assert np.all(same(got, want)), codes[~same(got, want)]
    assert np.array_equal(np.signbit(got), np.signbit(want))


def floats_around(narrow, kind):
    """Every value of the type, the middles between neighbours and what is next to those."""
    codes = np.arange(1 << narrow.bits).astype(unsigned(storage_kind(narrow)))
    with np.errstate(all="ignore"):
        values = codes.view(narrow.numpy).astype(np.float64)
    values = np.sort(values[np.isfinite(values)])
    with np.errstate(all="ignore"):
        middles = ((values[1:] + values[:-1]) / 2).astype(NUMPY[kind])
        whole = values.astype(NUMPY[kind])
        near = [np.nextafter(middles, NUMPY[kind](s * np.inf)) for s in (-1, 1)]
        spread = np.random.default_rng(0).integers(0, 2**32, 4000, dtype=np.uint32)
        edges = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e30, -1e30, 1e-45, 3.4e38, 1e-300]
        last = values[-1] * np.array([1.01, 1.03, 1.0625, 1.125, 1.2, 1.5])
        parts = [whole, middles, *near, spread.view(np.float32), np.array(edges), last, -last]
        return np.concatenate([p.astype(NUMPY[kind]) for p in parts])


@pytest.mark.parametrize("machine", LOCAL, ids=NAMES)
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", NARROW)
def test_every_boundary_narrows(name, kind, machine):
    narrow = dtype(name)
    storage = storage_kind(narrow)
    x = floats_around(narrow, kind)
    want = converted(x, dtype(kind), narrow).view(unsigned(storage))
    body = lambda e, v: narrowed(e, v, narrow)  # noqa: E731
    (got,) = run(body, [x], [kind], [storage], 16, machine)
    got = got.view(unsigned(storage))
    nan = np.isnan(x) if name == "f16" else np.zeros(x.size, bool)  # any NaN will do
    wrong = (got != want) & ~nan
    assert not wrong.any(), (x[wrong][:5], got[wrong][:5], want[wrong][:5])
    assert np.isnan(got[nan].view(narrow.numpy).astype(np.float32)).all()


@pytest.mark.parametrize("machine", LOCAL, ids=NAMES)
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", INTEGERS)
def test_floats_saturate_to_integers(name, kind, machine):
    integer = dtype(name)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 0.99, -0.99, 1.5, -1.5, 1e30, -1e30, 7.9, -8.9]
    powers = [s * 2.0**k * f for k in range(66) for s in (-1, 1) for f in (1, 1 - 2**-20, 1.3)]
    x = np.array(edges + powers).astype(NUMPY[kind])
    want = converted(x, dtype(kind), integer)
    storage = f"i{8 * integer.size_bytes}"
    body = lambda e, v: float_to_integer(e, v, integer)  # noqa: E731
    (got,) = run(body, [x], [kind], [storage], 8, machine)
    expected = want.astype(np.int64 if integer.is_signed_int else np.uint64)
    assert np.array_equal(got, expected.astype(got.dtype)), x[got != expected.astype(got.dtype)]


def test_all_but_zero_is_true():
    x = np.array([0.0, -0.0, 1e-45, np.nan, np.inf, -2], np.float32)
    (got,) = run(is_nonzero, [x], ["f32"], ["i1"], 4)
    assert got.tolist() == [False, False, True, True, True, True]
    (got,) = run(is_nonzero, [np.array([0, 3, -1], np.int32)], ["i32"], ["i1"], 4)
    assert got.tolist() == [False, True, True]


@pytest.mark.parametrize("name", MACHINES)
def test_nothing_is_called(name):
    machine = MACHINES[name]
    functions = []
    for number, word in enumerate(NARROW):
        narrow = dtype(word)
        kind = storage_kind(narrow)
        for lanes in (1, 5, 16):
            tag = f"{number}_{lanes}"
            body = lambda e, x, n=narrow: widened(e, x, n)  # noqa: E731
            functions.append(mapped(body, [kind], ["f32"], lanes, machine, f"w{tag}"))
            for source in ("f32", "f64"):
                body = lambda e, x, n=narrow: narrowed(e, x, n)  # noqa: E731
                made = mapped(body, [source], [kind], lanes, machine, f"n{source}{tag}")
                functions.append(made)
    for number, word in enumerate(INTEGERS):
        integer = dtype(word)
        body = lambda e, x, n=integer: float_to_integer(e, x, n)  # noqa: E731
        kind = f"i{8 * integer.size_bytes}"
        for source in ("f32", "f64"):
            functions.append(mapped(body, [source], [kind], 5, machine, f"i{source}{number}"))
    assert symbols_of(functions, machine) == set()


def test_other_types_are_refused():
    with pytest.raises(HloError, match="no float narrower"):
        run(lambda e, x: narrowed(e, x, dtype("f32")), [np.ones(4, np.float32)], ["f32"], ["f32"])


def test_what_is_rounded_to_a_narrow_type_is_stored_as_it_is() -> None:
    """A conversion to bf16 as a result is rounded once, and not again where it is stored."""
    import hloom

    module = hloom.parse(
        "HloModule m\nENTRY e {\n x = f32[64] parameter(0)\n ROOT r = bf16[64] convert(x)\n}"
    )
    exe = hloom.compile(module)
    text = exe.as_text("llvm")
    assert text.count("fcmp uno <64 x float>") == 1, text
    x = np.linspace(-3, 3, 64).astype(np.float32)
    x[:4] = [np.nan, np.inf, 1e-40, 3.3961776e38]
    with np.errstate(over="ignore"):
        expected = x.astype(ml_dtypes.bfloat16)
    assert np.asarray(exe(x)).view(np.uint16).tolist() == expected.view(np.uint16).tolist()


@pytest.mark.parametrize("through", ["bf16", "f16"])
@pytest.mark.parametrize("of", ["s4", "u4", "s8", "u8"])
def test_integers_that_a_narrow_float_holds_are_not_rounded(of: str, through: str) -> None:
    """Weights of 8 bits and less become bf16 without a rounding, and are stored as they are."""
    import hloom

    values = np.arange(-128, 128) if of.startswith("s") else np.arange(256)
    x = values.astype(dtype(of).numpy)
    module = hloom.parse(
        f"HloModule m\nENTRY e {{\n x = {of}[256] parameter(0)\n n = {through}[256] convert(x)\n"
        " w = f32[256] convert(n)\n h = f32[256] add(w, w)\n"
        f" ROOT r = (f32[256], {through}[256]) tuple(h, n)\n}}"
    )
    exe = hloom.compile(module)
    if through == "bf16":
        assert "fcmp uno" not in exe.as_text("llvm")
    twice, narrow = exe(x)
    want = x.astype(np.int32).astype(np.float32)
    assert np.array_equal(np.asarray(twice), want + want)
    assert np.array_equal(np.asarray(narrow), want.astype(dtype(through).numpy))
