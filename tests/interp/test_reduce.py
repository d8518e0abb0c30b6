"""Map, reduce, scan, select-and-scatter, batch normalisation, against loops and formulas."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloom.interp import evaluate
from hloom.ir.text import parse_module
from hloom.types.dtype import ARRAY_TYPES, dtype

INTEGERS = [t.name for t in ARRAY_TYPES if t.is_integral]
FLOATS = [t.name for t in ARRAY_TYPES if t.is_floating]

MIX = """mix {{
  a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  three = {t}[] constant(3)
  m = {t}[] multiply(a, three)
  ROOT r = {t}[] add(m, b)
}}
"""


def leaves(value):
    return [x for e in value.elements for x in leaves(e)] if value.is_tuple else [value.array]


def arrays(text, *arguments):
    return leaves(evaluate(parse_module("HloModule m\n" + text), *arguments))


def combiner(opcode, element_type):
    return f"""f {{
  a = {element_type}[] parameter(0)
  b = {element_type}[] parameter(1)
  ROOT r = {element_type}[] {opcode}(a, b)
}}
"""


def sizes(dims):
    return ",".join(map(str, dims))


def drawn(element_type, dims, rng):
    """Small values every type has, so that sums and products stay exact."""
    t = dtype(element_type)
    if t.is_pred:
        return rng.integers(0, 2, dims).astype(np.bool_)
    if t.is_integral:
        low = -(2 ** (t.bits - 1)) if t.is_signed_int else 0
        return rng.integers(max(low, -128), min(low + 2**t.bits, 128), dims).astype(t.numpy)
    if t.name == "f8e8m0fnu":
        return np.ones(dims, t.numpy)
    return rng.choice(np.float32([-2, -1, 0, 1, 1.5]), dims).astype(t.numpy)


def wrapped(value, t):
    """A Python integer as an element of an integer type."""
    low = int(value) & (2**t.bits - 1)
    return low - 2**t.bits if t.is_signed_int and low >= 2 ** (t.bits - 1) else low


PYTHON = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "maximum": max,
    "minimum": min,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


@pytest.mark.parametrize("opcode", PYTHON)
@pytest.mark.parametrize("element_type", INTEGERS)
def test_reduce_of_integers_is_the_fold_modulo_the_width(element_type, opcode):
    t, rng = dtype(element_type), np.random.default_rng(3)
    x, init = drawn(element_type, (3, 5), rng), drawn(element_type, (), rng)
    text = (
        combiner(opcode, element_type)
        + f"""ENTRY e {{
      x = {element_type}[3,5] parameter(0)
      i = {element_type}[] parameter(1)
      ROOT r = {element_type}[5] reduce(x, i), dimensions={{0}}, to_apply=f }}"""
    )
    (found,) = arrays(text, x, init)
    for k in range(5):
        total = int(init)
        for j in range(3):
            total = PYTHON[opcode](total, int(x[j, k]))
        assert int(found[k]) == wrapped(total, t)


@pytest.mark.parametrize("opcode", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("element_type", FLOATS)
def test_reduce_of_floats(element_type, opcode):
    t, rng = dtype(element_type), np.random.default_rng(4)
    x = drawn(element_type, (2, 3), rng)
    init = np.ones((), t.numpy)
    text = (
        combiner(opcode, element_type)
        + f"""ENTRY e {{
      x = {element_type}[2,3] parameter(0)
      i = {element_type}[] parameter(1)
      ROOT r = {element_type}[] reduce(x, i), dimensions={{0,1}}, to_apply=f }}"""
    )
    (found,) = arrays(text, x, init)
    total = 1.0
    for value in x.astype(np.float64).reshape(-1):
        total = PYTHON[opcode](total, value)
        if t.bits <= 8:
            total = float(np.float32(total).astype(t.numpy))
    assert found.dtype == t.numpy
    assert found == np.float32(total).astype(t.numpy)


@pytest.mark.parametrize("opcode", ["and", "or", "xor", "add", "multiply", "maximum", "minimum"])
def test_reduce_of_pred_is_logic(opcode):
    logic = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}.get(opcode, opcode)
    x = np.array(list(itertools.product([False, True], repeat=3)))
    text = (
        combiner(opcode, "pred")
        + """ENTRY e {
      x = pred[8,3] parameter(0)
      i = pred[] constant(false)
      ROOT r = pred[8] reduce(x, i), dimensions={1}, to_apply=f }"""
    )
    (found,) = arrays(text, x)
    for row, result in zip(x, found):
        total = False
        for value in row:
            total = PYTHON[logic](total, bool(value))
        assert result == total


def test_maximum_of_nan_is_nan_and_of_nothing_the_initial_value():
    text = (
        combiner("maximum", "f32")
        + """ENTRY e {
      x = f32[2,0,3] parameter(0)
      y = f32[3] parameter(1)
      i = f32[] constant(-inf)
      a = f32[2,3] reduce(x, i), dimensions={1}, to_apply=f
      b = f32[] reduce(y, i), dimensions={0}, to_apply=f
      ROOT t = (f32[2,3], f32[]) tuple(a, b) }"""
    )
    a, b = arrays(text, np.zeros((2, 0, 3), np.float32), np.float32([1, np.nan, 2]))
    assert (a == -np.inf).all()
    assert np.isnan(b)


def test_sums_of_narrow_floats_are_rounded_once():
    text = (
        combiner("add", "bf16")
        + """ENTRY e {
      x = bf16[4096] parameter(0)
      i = bf16[] constant(0)
      ROOT r = bf16[] reduce(x, i), dimensions={0}, to_apply=f }"""
    )
    (found,) = arrays(text, np.ones(4096, ml_dtypes.bfloat16))
    assert found == 4096


@settings(max_examples=40)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=3), st.data())
def test_reduce_with_any_combiner_folds_left_to_right(dims, data):
    axes = data.draw(st.sets(st.integers(0, len(dims) - 1)))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.integers(-9, 9, dims).astype(np.int32)
    kept = [d for d in range(len(dims)) if d not in axes]
    text = (
        MIX.format(t="s32")
        + f"""ENTRY e {{
      x = s32[{sizes(dims)}] parameter(0)
      i = s32[] constant(7)
      ROOT r = s32[{sizes([dims[d] for d in kept])}] reduce(x, i),
        dimensions={{{sizes(axes)}}}, to_apply=mix }}"""
    )
    (found,) = arrays(text, x)
    expected = np.full([dims[d] for d in kept], 7, np.int64)
    for at in itertools.product(*map(range, dims)):
        to = tuple(at[d] for d in kept)
        expected[to] = expected[to] * 3 + x[at]
    np.testing.assert_array_equal(found, expected.astype(np.int32))


ARGMAX = """argmax {
  v = f32[] parameter(0)
  k = s32[] parameter(1)
  w = f32[] parameter(2)
  j = s32[] parameter(3)
  keep = pred[] compare(v, w), direction=GE
  x = f32[] select(keep, v, w)
  n = s32[] select(keep, k, j)
  ROOT r = (f32[], s32[]) tuple(x, n)
}
"""


@pytest.mark.parametrize("count", [0, 1, 7, 5001])
def test_reduce_of_pairs(count):
    rng = np.random.default_rng(0)
    x = rng.integers(-50, 50, (2, count)).astype(np.float32)
    text = (
        ARGMAX
        + f"""ENTRY e {{
      x = f32[2,{count}] parameter(0)
      n = s32[2,{count}] iota(), iota_dimension=1
      i = f32[] constant(-inf)
      z = s32[] constant(-1)
      ROOT r = (f32[2], s32[2]) reduce(x, n, i, z), dimensions={{1}}, to_apply=argmax }}"""
    )
    best, at = arrays(text, x)
    for row in range(2):
        if count:
            assert at[row] == np.argmax(x[row])
            assert best[row] == x[row].max()
        else:
            assert (best[row], at[row]) == (-np.inf, -1)


def test_map():
    text = (
        MIX.format(t="s32")
        + """ENTRY e {
      x = s32[2,3] parameter(0)
      y = s32[2,3] parameter(1)
      ROOT r = s32[2,3] map(x, y), dimensions={0,1}, to_apply=mix }"""
    )
    x, y = np.arange(6, dtype=np.int32).reshape(2, 3), np.full((2, 3), 100, np.int32)
    np.testing.assert_array_equal(arrays(text, x, y)[0], x * 3 + y)


# -- scan ---------------------------------------------------------------------------------------

SCAN = """body {
  x = s32[2] parameter(0)
  c = s32[2] parameter(1)
  n = s32[] parameter(2)
  o = s32[2] subtract(x, c)
  d = s32[2] add(x, c)
  one = s32[] constant(1)
  m = s32[] add(n, one)
  ROOT r = (s32[2], s32[2], s32[]) tuple(o, d, m)
}
"""


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan(axis, reverse):
    x = np.arange(10, 18).reshape((4, 2) if axis == 0 else (2, 4)).astype(np.int32)
    dims = sizes(x.shape)
    text = (
        SCAN
        + f"""ENTRY e {{
      x = s32[{dims}] parameter(0)
      c = s32[2] parameter(1)
      n = s32[] constant(0)
      ROOT r = (s32[{dims}], s32[2], s32[]) scan(x, c, n), dimensions={{{axis}}},
        num_carries=2, is_reverse={str(reverse).lower()}, to_apply=body }}"""
    )
    carry = np.int32([5, -5])
    out, last, steps = arrays(text, x, carry)
    lines = np.moveaxis(x, axis, 0)
    expected = np.zeros_like(lines)
    for k in range(3, -1, -1) if reverse else range(4):
        expected[k] = lines[k] - carry
        carry = lines[k] + carry
    np.testing.assert_array_equal(out, np.moveaxis(expected, 0, axis))
    np.testing.assert_array_equal(last, carry)
    assert steps == 4


@pytest.mark.parametrize("reverse", [False, True])
def test_running_sum(reverse):
    count = 1000
    x = np.arange(count, dtype=np.float32)
    text = f"""body {{
      x = f32[] parameter(0)
      c = f32[] parameter(1)
      s = f32[] add(c, x)
      ROOT r = (f32[], f32[]) tuple(s, s) }}
    ENTRY e {{
      x = f32[{count}] parameter(0)
      c = f32[] constant(5)
      ROOT r = (f32[{count}], f32[]) scan(x, c), dimensions={{0}}, num_carries=1,
        is_reverse={str(reverse).lower()}, to_apply=body }}"""
    out, last = arrays(text, x)
    line = x[::-1] if reverse else x
    expected = 5 + np.cumsum(line)
    np.testing.assert_array_equal(out, expected[::-1] if reverse else expected)
    assert last == expected[-1]


# -- batch normalisation ------------------------------------------------------------------------


@pytest.mark.parametrize("feature", [0, 1, 2])
@pytest.mark.parametrize("element_type", ["f16", "bf16", "f32", "f64"])
def test_batch_norm(element_type, feature):
    t, rng = dtype(element_type).numpy, np.random.default_rng(1)
    x, g = (rng.normal(size=(4, 3, 5)).astype(t) for _ in range(2))
    c = x.shape[feature]
    scale, offset = (rng.normal(size=c).astype(t) for _ in range(2))
    k, v = f"{element_type}[4,3,5]", f"{element_type}[{c}]"
    rest = f"epsilon=0.125, feature_index={feature}"
    text = f"""ENTRY e {{
      x = {k} parameter(0)
      g = {k} parameter(1)
      s = {v} parameter(2)
      o = {v} parameter(3)
      a = ({k}, {v}, {v}) batch-norm-training(x, s, o), {rest}
      m = {v} get-tuple-element(a), index=1
      w = {v} get-tuple-element(a), index=2
      b = {k} batch-norm-inference(x, s, o, m, w), {rest}
      d = ({k}, {v}, {v}) batch-norm-grad(x, s, m, w, g), {rest}
      ROOT r = (({k}, {v}, {v}), {k}, ({k}, {v}, {v})) tuple(a, b, d) }}"""
    y, mean, variance, again, dx, dscale, doffset = arrays(text, x, g, scale, offset)
    x, g, scale, offset = (
        np.moveaxis(q.astype(np.float64), feature, -1) if q.ndim > 1 else q.astype(np.float64)
        for q in (x, g, scale, offset)
    )
    axes, n = (0, 1), x.size // c
    mu = x.sum(axes) / n
    var = ((x - mu) ** 2).sum(axes) / n
    hat = (x - mu) / np.sqrt(var + 0.125)
    expected_dx = (
        scale / np.sqrt(var + 0.125) / n * (n * g - g.sum(axes) - hat * (g * hat).sum(axes))
    )
    tolerance = {"f16": 2e-2, "bf16": 1e-1}.get(element_type, 1e-5)
    for found, expected in (
        (mean, mu),
        (variance, var),
        (dscale, (g * hat).sum(axes)),
        (doffset, g.sum(axes)),
        (y, hat * scale + offset),
        (again, hat * scale + offset),
        (dx, expected_dx),
    ):
        assert found.dtype == t
        found = np.moveaxis(found.astype(np.float64), feature if found.ndim > 1 else -1, -1)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", INTEGERS)
def test_running_product_of_every_width(name):
    text = f"""body {{
      x = {name}[] parameter(0)
      c = {name}[] parameter(1)
      p = {name}[] multiply(c, x)
      ROOT r = ({name}[], {name}[]) tuple(p, p) }}
    ENTRY e {{
      x = {name}[5] parameter(0)
      c = {name}[] parameter(1)
      ROOT r = ({name}[5], {name}[]) scan(x, c), dimensions={{0}}, num_carries=1,
        to_apply=body }}"""
    kind = dtype(name)
    low = -1 if kind.is_signed_int else 1
    x = np.array([low, low, low, 0, low], np.int8).astype(kind.numpy)
    out, last = arrays(text, x, np.array(low, np.int8).astype(kind.numpy))
    wrapped = [1, low, 1, 0, 0] if kind.bits > 1 else [low, low, low, 0, 0]
    np.testing.assert_array_equal(out.astype(np.int64), wrapped)
    assert last.astype(np.int64) == 0
