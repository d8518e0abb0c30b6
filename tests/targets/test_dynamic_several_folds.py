"""Folds over arrays of run-time size by computations that are not one operation count each element
that is there once, and what they begin with once."""

import numpy as np
import pytest

import hloom
from hloom.ir.text.parse import parse_module

COMPLEX = """HloModule m
product { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  ac = f32[] multiply(a, c)
  bd = f32[] multiply(b, d)
  ad = f32[] multiply(a, d)
  bc = f32[] multiply(b, c)
  x = f32[] subtract(ac, bd)
  y = f32[] add(ad, bc)
  ROOT r = (f32[], f32[]) tuple(x, y) }
ENTRY e { x = f32[%(n)s] parameter(0)
  y = f32[%(n)s] parameter(1)
  size = s32[] parameter(2)
  two = f32[] constant(2)
  one = f32[] constant(1)
  p = f32[%(some)s] set-dimension-size(x, size), dimensions={%(at)s}
  q = f32[%(some)s] set-dimension-size(y, size), dimensions={%(at)s}
  ROOT r = (f32[%(left)s], f32[%(left)s]) %(fold)s, to_apply=product }"""
ONE = """HloModule m
f { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ab = f32[] multiply(a, b)
  s = f32[] add(a, b)
  ROOT r = f32[] add(s, ab) }
ENTRY e { x = f32[%(n)s] parameter(0)
  size = s32[] parameter(1)
  three = f32[] constant(3)
  p = f32[%(some)s] set-dimension-size(x, size), dimensions={%(at)s}
  ROOT r = f32[%(left)s] %(fold)s, to_apply=f }"""
MIXED = """HloModule m
f { a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  s = f32[] add(a, b)
  m = s32[] maximum(i, j)
  ROOT r = (f32[], s32[]) tuple(s, m) }
ENTRY e { x = f32[64] parameter(0)
  size = s32[] parameter(1)
  i = s32[64] iota(), iota_dimension=0
  three = f32[] constant(3)
  low = s32[] constant(-7)
  p = f32[<=64] set-dimension-size(x, size), dimensions={0}
  q = s32[<=64] set-dimension-size(i, size), dimensions={0}
  ROOT r = (f32[], s32[]) reduce(p, q, three, low), dimensions={0}, to_apply=f }"""
REDUCE = "reduce(p, q, two, one), dimensions={%s}"


def unit(dims, seed):
    angles = np.random.default_rng(seed).uniform(0, 6, dims)
    return np.exp(1j * angles).astype(np.complex64)


def both(text, *arguments):
    """What native code and the interpreter make of a program."""
    compiled = hloom.compile(text)(*arguments)
    yield [np.asarray(r) for r in (compiled if isinstance(compiled, (tuple, list)) else [compiled])]
    yield [leaf.array for leaf in hloom.evaluate(parse_module(text), *arguments).leaves()]


@pytest.mark.parametrize("size", [0, 1, 3, 8])
@pytest.mark.parametrize(("dims", "axis"), [((8,), 0), ((8, 5), 0), ((5, 8), 1), ((1, 8), 1)])
def test_products_of_complex_numbers_in_two_arrays(dims, axis, size):
    z = unit(dims, size)
    some = ",".join(f"<={n}" if d == axis else str(n) for d, n in enumerate(dims))
    left = [n for d, n in enumerate(dims) if d != axis]
    words = {"n": ",".join(map(str, dims)), "some": some, "at": axis, "fold": REDUCE % axis}
    text = COMPLEX % {**words, "left": ",".join(map(str, left))}
    there = np.take(z, range(size), axis)
    expected = np.prod(there, axis) * (2 + 1j)
    for real, imag in both(text, z.real.copy(), z.imag.copy(), np.int32(size)):
        np.testing.assert_allclose(real + 1j * imag, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [0, 4096, 4097, 99_999, 100_000])
def test_a_long_product(size):
    z = unit((100_000,), 1)
    words = {"n": "100000", "some": "<=100000", "at": 0, "fold": REDUCE % 0, "left": ""}
    real, imag = hloom.compile(COMPLEX % words)(z.real.copy(), z.imag.copy(), np.int32(size))
    expected = np.prod(z[:size].astype(np.complex128)) * (2 + 1j)
    np.testing.assert_allclose(np.asarray(real) + 1j * np.asarray(imag), expected, rtol=2e-2)


@pytest.mark.parametrize("size", [0, 1, 3, 8])
def test_one_result_of_several_operations(size):
    fold = "reduce(p, three), dimensions={0}"
    text = ONE % {"n": 8, "some": "<=8", "at": 0, "fold": fold, "left": ""}
    x = np.linspace(0.1, 0.8, 8, dtype=np.float32)
    for (r,) in both(text, x, np.int32(size)):
        np.testing.assert_allclose(r, 4 * np.prod(1 + x[:size]) - 1, rtol=1e-5)


@pytest.mark.parametrize("size", [1, 3, 8])
def test_windows_of_several_results(size):
    fold = "reduce-window(p, q, two, one), window={size=3 pad=2_0}"
    text = COMPLEX % {"n": 8, "some": "<=8", "at": 0, "fold": fold, "left": "<=8"}
    z = unit((8,), size)
    expected = [np.prod(z[max(0, k - 2) : k + 1]) * (2 + 1j) for k in range(size)]
    for real, imag in both(text, z.real.copy(), z.imag.copy(), np.int32(size)):
        np.testing.assert_allclose(real + 1j * imag, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [0, 1, 63, 64])
def test_a_sum_beside_a_maximum(size):
    x = np.arange(64, dtype=np.float32)
    for total, last in both(MIXED, x, np.int32(size)):
        assert total == x[:size].sum() + 3
        assert last == (size - 1 if size else -7)
