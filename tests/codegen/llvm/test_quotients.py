"""Quotients by what stays the same in a loop are products, and round as divisions do."""

import platform

import numpy as np
import pytest

import hloom
from tests.subnormal import flushed

NARROW = {"xla_cpu_max_isa": "AVX2"}


def numbers(kind: type, size: int) -> np.ndarray:
    """Special ones, and others of all magnitudes."""
    info = np.finfo(kind)
    special = [0, -0.0, np.inf, -np.inf, np.nan, 1, -3, info.tiny, info.max, -info.max]
    g = np.random.default_rng(0)
    wide = np.exp(g.uniform(np.log(info.tiny) * 0.99, np.log(info.max) * 0.99, size))
    return np.array([*special, *(wide * g.choice([-1, 1], size))], kind)


def check(result: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    info = np.finfo(x.dtype)
    with np.errstate(all="ignore"):
        expected = flushed(flushed(x) / flushed(y))
    zero = (expected == 0) & (result == 0)
    assert np.array_equal(np.signbit(result[zero]), np.signbit(expected[zero]))
    odd = ~np.isfinite(expected)
    assert np.array_equal(result[odd], expected[odd], equal_nan=True)
    # Rests of small numbers, and reciprocals of large ones, count as zero.
    small = (np.abs(x) < info.tiny * 2.0 ** (info.nmant + 2)) | (np.abs(y) >= info.max / 8)
    assert np.array_equal(result[~odd & ~small], expected[~odd & ~small])
    error = np.abs(result[~odd & small] - expected[~odd & small])
    assert (error <= np.maximum(np.spacing(np.abs(expected[~odd & small])), info.tiny)).all()


@pytest.mark.parametrize("options", [{}, NARROW], ids=["", "AVX2"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_rows_by_a_number_each(dtype: str, options: dict[str, str]) -> None:
    kind = {"f32": np.float32, "f64": np.float64}[dtype]
    y = numbers(kind, 50)
    x = np.broadcast_to(numbers(kind, 390), (len(y), 400)).copy()
    text = f"""HloModule m
ENTRY e {{
  x = {dtype}[{len(y)},400] parameter(0)
  y = {dtype}[{len(y)}] parameter(1)
  ys = {dtype}[{len(y)},400] broadcast(y), dimensions={{0}}
  ROOT r = {dtype}[{len(y)},400] divide(x, ys) }}"""
    exe = hloom.compile(hloom.parse(text), options=options)
    check(np.asarray(exe(x, y)), x, np.broadcast_to(y[:, None], x.shape))


@pytest.mark.parametrize("options", [{}, NARROW], ids=["", "AVX2"])
@pytest.mark.parametrize("divisor", [255.0, -0.3, 1e38, 3e38, 4.0, 2e-38])
def test_by_a_constant(divisor: float, options: dict[str, str]) -> None:
    x = numbers(np.float32, 390)
    text = f"""HloModule m
ENTRY e {{
  x = f32[400] parameter(0)
  c = f32[] constant({divisor})
  cs = f32[400] broadcast(c), dimensions={{}}
  ROOT r = f32[400] divide(x, cs) }}"""
    exe = hloom.compile(hloom.parse(text), options=options)
    if platform.machine() == "x86_64" and options:
        assert ("@llvm.fma" in exe.as_text("llvm")) == (
            1 / 255 < abs(divisor) < 1e38 and divisor != 4.0
        )
    with np.errstate(all="ignore"):
        check(np.asarray(exe(x)), x, np.full_like(x, divisor))
