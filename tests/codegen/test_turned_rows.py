"""Rows that are turned round: tiles at their ends choose among arrays, those between do not."""

import numpy as np
import pytest

import hloom


@pytest.mark.parametrize("columns", [5, 64, 257, 1000, 1024, 4099])
@pytest.mark.parametrize("by", [1, 3, -2])
@pytest.mark.parametrize("kind", ["f32", "s8"])
def test_rows_turned_both_ways(columns, by, kind):
    cut = by % columns
    text = f"""HloModule m
ENTRY e {{
  x = {kind}[3,{columns}] parameter(0)
  a = {kind}[3,{cut}] slice(x), slice={{[0:3], [{columns - cut}:{columns}]}}
  b = {kind}[3,{columns - cut}] slice(x), slice={{[0:3], [0:{columns - cut}]}}
  right = {kind}[3,{columns}] concatenate(a, b), dimensions={{1}}
  c = {kind}[3,{cut}] slice(x), slice={{[0:3], [0:{cut}]}}
  d = {kind}[3,{columns - cut}] slice(x), slice={{[0:3], [{cut}:{columns}]}}
  left = {kind}[3,{columns}] concatenate(d, c), dimensions={{1}}
  s = {kind}[3,{columns}] add(left, right)
  ROOT t = {kind}[3,{columns}] add(s, x)
}}"""
    rng = np.random.default_rng(columns)
    x = rng.integers(-9, 9, (3, columns)).astype(np.float32 if kind == "f32" else np.int8)
    have = hloom.compile(hloom.parse(text))(x)
    np.testing.assert_array_equal(np.asarray(have), np.roll(x, by, 1) + np.roll(x, -by, 1) + x)
