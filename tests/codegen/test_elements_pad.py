"""Padding inside other kernels: rows of elements between rows of padding."""

from __future__ import annotations

import numpy as np
import pytest

import hloom

TURNS = """HloModule m
ENTRY e {{
  x = f32[{n},{m}] parameter(0)
  y = f32[{n},{m}] parameter(1)
  z = f32[] constant({z})
  a = f32[{n},{m}] tanh(x)
  b = f32[{n},{m}] multiply(x, y)
  p = f32[{all},{m}] pad(a, z), padding=0_1_1x0_0
  q = f32[{all},{m}] pad(b, z), padding=1_0_1x0_0
  s = f32[{all},{m}] {join}(p, q)
  t = f32[{all},{m}] negate(s)
  v = f32[{twice},{m}] pad(t, z), padding=-1_2_{more}x0_0
  ROOT r = f32[{twice},{m}] add(v, v)
}}"""


def turns(n: int, m: int, z: str, join: str, more: int) -> hloom.Module:
    whole = 2 * n
    twice = (whole - 1) * (more + 1) + 1 + 1
    text = TURNS.format(n=n, m=m, z=z, join=join, all=whole, twice=twice, more=more)
    return hloom.parse(text)


@pytest.mark.parametrize("more", [0, 1, 2])
@pytest.mark.parametrize("z,join", [("0", "add"), ("-0", "add"), ("nan", "maximum"), ("2", "add")])
def test_rows_that_take_turns(z: str, join: str, more: int):
    rng = np.random.default_rng(more)
    for n, m in ((1, 1), (1, 40), (2, 1), (3, 37), (64, 129), (300, 16)):
        x, y = (rng.standard_normal((n, m)).astype(np.float32) for _ in range(2))
        x[::2] = -0.0
        module = turns(n, m, z, join, more)
        native, meant = np.asarray(hloom.compile(module)(x, y)), hloom.evaluate(module, x, y).array
        np.testing.assert_allclose(native, meant, rtol=1e-6)
        assert np.array_equal(np.signbit(native[meant == 0]), np.signbit(meant[meant == 0]))


def test_rows_between_are_not_computed():
    """Behind two pads a quarter of the rows are computed: the others would be in vain."""
    kernels = hloom.compile(turns(64, 129, "0", "add", 1)).as_text("kernels")
    assert "= if " in kernels and "= tanh " in kernels
    # With lanes along what is spread nothing can branch.
    assert "= if " not in hloom.compile(turns(64, 1, "0", "add", 1)).as_text("kernels")
