"""Extremes of numbers that compare strangely: NaN wins, and 0 is above -0; as scalars and rows."""

import itertools

import numpy as np
import pytest

import hloom
from tests.subnormal import flushed

STRANGE = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, -1.0, 1e-40, -1e-40]


def expected(opcode: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    least = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    most = np.where((a > b) | ((a == b) & np.signbit(b)), a, b)
    extreme = least if opcode == "minimum" else most
    return np.where(np.isnan(a) | np.isnan(b), np.nan, extreme)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("opcode", ["minimum", "maximum"])
def test_extremes_of_strange_numbers(opcode, kind):
    dtype = np.float32 if kind == "f32" else np.float64
    a, b = np.array(list(itertools.product(STRANGE, STRANGE)), dtype).T
    text = f"""HloModule m
ENTRY e {{
  a = {kind}[100] parameter(0)
  b = {kind}[100] parameter(1)
  c = {kind}[] parameter(2)
  d = {kind}[] parameter(3)
  x = {kind}[100] {opcode}(a, b)
  y = {kind}[] {opcode}(c, d)
  ROOT r = ({kind}[100], {kind}[]) tuple(x, y)
}}"""
    executable = hloom.compile(hloom.parse(text))
    want = expected(opcode, flushed(a), flushed(b))
    for k in range(len(a)):
        rows, one = executable(a, b, a[k], b[k])
        have = flushed(np.append(rows, one))
        both = np.append(want, want[k])
        np.testing.assert_array_equal(have, both)
        known = ~np.isnan(both)
        np.testing.assert_array_equal(np.signbit(have[known]), np.signbit(both[known]))
