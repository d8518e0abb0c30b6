"""Operands whose run-time sizes differ; in compiled code they mean the same."""

from itertools import product

import numpy as np
import pytest

import hloom
from hloom.interp import evaluate
from hloom.ir.text import parse_module

ROWS = np.arange(1, 9, dtype=np.float32).reshape(4, 2)
TWO = """HloModule m
less {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT l = pred[] compare(p, q), direction=LT
}
less_pair {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  r = f32[] parameter(2)
  s = f32[] parameter(3)
  ROOT l = pred[] compare(p, q), direction=LT
}
pair {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  r = f32[] parameter(2)
  s = f32[] parameter(3)
  t = f32[] add(p, r)
  u = f32[] multiply(q, s)
  ROOT l = (f32[], f32[]) tuple(t, u)
}
ENTRY e {
  x = f32[<=4,2] parameter(0)
  y = f32[<=4,2] parameter(1)
  b = f32[4,2] parameter(2)
  zero = f32[] constant(0)
  one = f32[] constant(1)
  p = pred[<=4,2] compare(x, y), direction=LT
  RESULT
}
"""


def results(result, x, y, b=ROWS):
    """What the interpreter, and compiled code, make of x, y and b."""
    module = parse_module(TWO.replace("RESULT", result))
    hloom.verify(module)
    expected = evaluate(module, x, y, b)
    found = hloom.compile(module)(x, y, b)
    if not expected.shape.is_tuple:
        return expected.array, np.asarray(found)
    return [a.array for a in expected.elements], [np.asarray(a) for a in found]


def elementwise_size(*sizes):
    return min([n for n in sizes if n != 1], default=1)


@pytest.mark.parametrize("n,m", list(product(range(5), repeat=2)))
def test_elementwise(n, m):
    """One element is repeated, of more the first count; a static operand is cut."""
    x, y = ROWS[:n], 10 * ROWS[:m]
    size = elementwise_size(n, m)
    left, right = (np.repeat(a, size, 0) if len(a) == 1 else a[:size] for a in (x, y))
    lines = """s = f32[<=4,2] add(x, y)
      t = f32[<=4,2] add(b, x)
      u = f32[<=4,2] select(p, x, y)
      v = f32[<=4,2] clamp(x, b, y)
      ROOT r = (f32[<=4,2], f32[<=4,2], f32[<=4,2], f32[<=4,2]) tuple(s, t, u, v)"""
    clamped = np.minimum(np.maximum(ROWS[:size], left), right)
    wanted = [left + right, ROWS[:n] + x, np.where(left < right, left, right), clamped]
    for found in results(lines, x, y):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("n,m", [(1, 3), (3, 1), (2, 4), (0, 2), (4, 0), (3, 3)])
def test_dimensions_walked_together(n, m):
    """The elements count that all operands have; what only one has meets no zero."""
    least = min(n, m)
    x, y, b = ROWS[:n].copy(), 10 * ROWS[:m], ROWS.copy()
    x[least:] = np.inf
    b[n:] = np.nan
    lines = """c = f32[<=4,4] concatenate(x, y), dimensions={1}
      d = f32[2,2] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
      e = f32[2,2] dot(y, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
      f = f32[<=4,2,2] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}
      g = (f32[2], f32[2]) reduce(x, y, zero, one), dimensions={0}, to_apply=pair
      h = f32[2] get-tuple-element(g), index=0
      i = f32[2] get-tuple-element(g), index=1
      j = (f32[<=4,2], f32[<=4,2]) sort(y, x), dimensions={0}, to_apply=less_pair
      k = f32[<=4,2] get-tuple-element(j), index=0
      ROOT r = (f32[<=4,4], f32[2,2], f32[2,2], f32[<=4,2,2], f32[2], f32[2], f32[<=4,2])
        tuple(c, d, e, f, h, i, k)"""
    x_least, y_least, b_least = x[:least], y[:least], b[:m].copy()
    if n < m:
        b = ROWS.copy()
        b[m:] = np.nan
        b_least = b[:m]
    wanted = [
        np.concatenate([x_least, y_least], 1),
        x_least.T @ y_least,
        y.T @ b_least,
        x_least[:, :, None] * y_least[:, None],
        x_least.sum(0),
        y_least.prod(0),
        y_least,
    ]
    for found in results(lines, x, y, b):
        for a, b_ in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b_)


def test_one_of_one_repeated_along_the_other_dimension():
    text = """HloModule m
    ENTRY e {
      x = s32[<=3,<=4] parameter(0)
      y = s32[<=3,<=4] parameter(1)
      ROOT s = s32[<=3,<=4] subtract(x, y)
    }"""
    module = parse_module(text)
    program = hloom.compile(module)
    whole = np.arange(12, dtype=np.int32).reshape(3, 4)
    for sizes in product((0, 1, 2, 3), (0, 1, 4), (0, 1, 2, 3), (0, 1, 3, 4)):
        x, y = whole[: sizes[0], : sizes[1]], 7 * whole[: sizes[2], : sizes[3]]
        x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
        expected = evaluate(module, x, y).array
        wanted = elementwise_size(sizes[0], sizes[2]), elementwise_size(sizes[1], sizes[3])
        assert expected.shape == wanted
        np.testing.assert_array_equal(np.asarray(program(x, y)), expected)


def test_a_size_that_grows_shows_zeros_of_an_argument():
    """Not whatever was in memory: what pads an argument is 0."""
    text = """HloModule m
    ENTRY e {
      x = f32[<=1000] parameter(0)
      n = s32[] constant(1000)
      ROOT y = f32[<=1000] set-dimension-size(x, n), dimensions={0}
    }"""
    program = hloom.compile(text)
    for _ in range(3):
        np.full(1000, 7, np.float32)  # what freed memory would hold
        found = np.asarray(program(np.ones(3, np.float32)))
        np.testing.assert_array_equal(found, [1] * 3 + [0] * 997)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_a_dimension_that_an_updated_array_has_at_compile_time_stays_so(n):
    """Only the update's rows have a run-time size: the updated array is cut by other operands,
    not repeated by them, and its size does not count."""
    text = """HloModule m
    ENTRY e {
      v0 = s32[5,<=5] parameter(0)
      v1 = s32[<=5,<=5] parameter(1)
      zero = s32[] constant(0)
      v2 = s32[5,<=5] dynamic-update-slice(v0, v1, zero, zero)
      ROOT p = pred[<=5,<=5] compare(v1, v2), direction=LT
    }
    """
    module = parse_module(text)
    hloom.verify(module)
    x, y = np.arange(25, dtype=np.int32).reshape(5, 5), np.full((n, 5), 3, np.int32)
    updated = x.copy()
    updated[:n] = y
    expected = y < updated[:n]
    np.testing.assert_array_equal(evaluate(module, x, y).array, expected)
    np.testing.assert_array_equal(np.asarray(hloom.compile(module)(x, y)), expected)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_product_counts_what_both_have(n):
    """As if the smaller one were followed by zeros."""
    text = """HloModule m
    ENTRY e {
      x = s32[<=2] parameter(0)
      y = s32[3,2] parameter(1)
      ROOT p = s32[3] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={1}
    }
    """
    module = parse_module(text)
    hloom.verify(module)
    x, y = np.arange(5, 5 + n, dtype=np.int32), np.arange(6, dtype=np.int32).reshape(3, 2)
    np.testing.assert_array_equal(evaluate(module, x, y).array, y[:, :n] @ x)
    np.testing.assert_array_equal(np.asarray(hloom.compile(module)(x, y)), y[:, :n] @ x)
