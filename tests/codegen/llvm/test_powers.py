"""Powers that are written as products and roots: the numbers of `power`, special ones as well."""

import numpy as np
import pytest

import hloom
from tests.subnormal import flushed

EXPONENTS = (3, 0.5, -0.5, 1.5, -1.5)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_what_power_gives(dtype: str, exponent: float):
    kind = {"f32": np.float32, "f64": np.float64}[dtype]
    info = np.finfo(kind)
    special = [0, -0.0, np.inf, -np.inf, np.nan, -1, -2.5, info.tiny, info.smallest_subnormal]
    wide = np.exp(np.random.default_rng(0).uniform(np.log(info.tiny), np.log(info.max), 2000))
    x = np.array([*special, info.max, -info.max, *wide], kind)
    text = f"""HloModule m
ENTRY e {{
  x = {dtype}[{len(x)}] parameter(0)
  c = {dtype}[] constant({exponent})
  cs = {dtype}[{len(x)}] broadcast(c), dimensions={{}}
  ROOT r = {dtype}[{len(x)}] power(x, cs)
}}"""
    exe = hloom.compile(hloom.parse(text))
    code = exe.as_text("llvm")
    assert "@llvm.sqrt" in code or exponent == 3
    assert "fdiv" not in code or exponent < 0
    made = np.asarray(exe(x))
    with np.errstate(all="ignore"):
        exact = np.power(flushed(x).astype(np.longdouble), np.longdouble(exponent))
        expected = exact.astype(kind)
    exact = np.where(np.abs(expected) < info.smallest_normal, 0, exact)
    expected = flushed(expected)
    zero = expected == 0
    assert np.array_equal(np.signbit(made[zero]), np.signbit(expected[zero]))
    finite = np.isfinite(expected) & np.isfinite(made)
    assert np.array_equal(made[~finite], expected[~finite], equal_nan=True)
    error = np.abs(made[finite].astype(np.longdouble) - exact[finite])
    assert (
        error <= 2 * np.spacing(np.maximum(np.abs(expected[finite]), info.smallest_normal))
    ).all()


def test_a_long_kernel_writes_roots_out():
    lines = ["HloModule chain", "ENTRY e {", "  c = f32[] constant(1.5)"]
    lines += ["  cs = f32[64] broadcast(c), dimensions={}", "  v0 = f32[64] parameter(0)"]
    for k in range(60):
        lines += [f"  sine{k} = f32[64] sine(v{k})", f"  v{k + 1} = f32[64] power(sine{k}, cs)"]
    exe = hloom.compile(hloom.parse("\n".join([*lines, "  ROOT r = f32[64] negate(v60)\n}"])))
    code = exe.as_text("llvm")
    assert "_sine_" in code and "_power_" not in code
