"""Rows of a few elements side by side: tiles of whole rows, read in any order, of every type and
number of elements, on either side of where tiles stop being whole rows."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import hloom

TYPES = {
    "pred": np.bool_,
    "s8": np.int8,
    "u16": np.uint16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "c64": np.complex64,
}


def numbers(of: str, dims: tuple[int, ...]) -> np.ndarray:
    drawn = np.random.default_rng(len(dims)).integers(0, 100, dims)
    return (drawn % 2 if of == "pred" else drawn).astype(TYPES[of])


@pytest.mark.parametrize("of", TYPES)
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 7, 8, 9, 13])
def test_channels_turned_round(of: str, channels: int) -> None:
    for rows in (1, 7, 64, 331):
        dims = (2, rows, channels)
        module = hloom.parse(f"""
ENTRY e {{
  x = {of}[{",".join(map(str, dims))}] parameter(0)
  ROOT r = {of}[{",".join(map(str, dims))}] reverse(x), dimensions={{2}}
}}""")
        x = numbers(of, dims)
        np.testing.assert_array_equal(np.asarray(hloom.compile(module)(x)), x[..., ::-1])


@pytest.mark.parametrize("of", ["u8", "f32"])
@pytest.mark.parametrize("channels", [3, 5, 6, 11])
def test_numbers_of_channels(of: str, channels: int) -> None:
    """What every row reads alike, beside what it reads of its own, edges and all."""
    rows = 517
    module = hloom.parse(f"""
ENTRY e {{
  x = {of}[{rows},{channels}] parameter(0)
  m = f32[{channels}] parameter(1)
  c = f32[{rows},{channels}] convert(x)
  n = f32[{rows},{channels}] broadcast(m), dimensions={{1}}
  d = f32[{rows},{channels}] subtract(c, n)
  z = f32[] constant(7)
  p = f32[{rows},{channels + 2}] pad(d, z), padding=0_0x1_1
  s = f32[{rows},{channels}] slice(p), slice={{[0:{rows}], [0:{channels}]}}
  t = f32[{rows},{channels}] reverse(d), dimensions={{0,1}}
  ROOT r = f32[{rows},{channels}] add(s, t)
}}""")
    x = np.random.default_rng(0).integers(0, 100, (rows, channels))
    x = x.astype(np.uint8 if of == "u8" else np.float32)
    m = np.arange(channels, dtype=np.float32)
    d = x.astype(np.float32) - m
    want = np.pad(d, ((0, 0), (1, 1)), constant_values=7)[:, :channels] + d[::-1, ::-1]
    np.testing.assert_array_equal(np.asarray(hloom.compile(module)(x, m)), want)


def test_whole_rows_are_shuffled() -> None:
    """Three bytes of a pixel in another order: no element by itself."""
    module = hloom.parse("""
ENTRY e {
  x = u8[64,64,3] parameter(0)
  ROOT r = u8[64,64,3] reverse(x), dimensions={2}
}""")
    text = hloom.compile(module).as_text("llvm")
    assert "shufflevector" in text
    assert "load i8," not in text
