"""Sort and topk against Python's stable sort with the comparator written out."""

from functools import cmp_to_key

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloom.interp import evaluate, sort
from hloom.interp.sort_keys import keys_of
from hloom.ir.text import parse_module
from hloom.types.dtype import ARRAY_TYPES, dtype
from tests.processor_time import at_most


def arrays(text, *arguments):
    result = evaluate(parse_module("HloModule m\n" + text), *arguments)
    return [e.array for e in result.elements] if result.is_tuple else [result.array]


def module(body, types, dims, axis=0):
    """A sort of operands of these types; the parameters of `body` are a0, b0, a1, b1, ..."""
    shape = ",".join(map(str, dims))
    parameters = "\n".join(
        f"{side}{k} = {t}[] parameter({2 * k + j})"
        for k, t in enumerate(types)
        for j, side in enumerate("ab")
    )
    inputs = "\n".join(f"x{k} = {t}[{shape}] parameter({k})" for k, t in enumerate(types))
    names = ", ".join(f"x{k}" for k in range(len(types)))
    parts = ", ".join(f"{t}[{shape}]" for t in types)
    result = parts if len(types) == 1 else f"({parts})"
    return f"""less {{
      {parameters}
      {body} }}
    ENTRY e {{
      {inputs}
      ROOT r = {result} sort({names}), dimensions={{{axis}}}, is_stable=true, to_apply=less }}"""


def is_recognised(text):
    m = parse_module("HloModule m\n" + text)
    return keys_of(m.entry.root.called[0]) is not None


def stable(rows, less):
    """Order of the rows (tuples) by Python's sort, which is stable."""

    def compared(i, j):
        a, b = rows[i], rows[j]
        return -1 if less(a, b) else 1 if less(b, a) else 0

    return sorted(range(len(rows)), key=cmp_to_key(compared))


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("t", [t for t in ARRAY_TYPES if not t.is_complex], ids=str)
def test_one_key_of_every_type_is_stable(t, direction):
    rng = np.random.default_rng(0)
    x = rng.integers(-8, 8, (3, 20)).astype(np.float32).astype(t.numpy)
    if t.name == "f8e8m0fnu":
        x = np.exp2(rng.integers(-4, 4, (3, 20))).astype(t.numpy)
    n = np.tile(np.arange(20, dtype=np.int32), (3, 1))
    text = module(
        f"ROOT r = pred[] compare(a0, b0), direction={direction}", [t, "s32"], (3, 20), axis=1
    )
    assert is_recognised(text)
    values, order = arrays(text, x, n)
    for row, found, at in zip(x, values, order):
        keys = [int(v) if t.is_integral else float(v) for v in row]
        expected = sorted(range(20), key=lambda k: keys[k], reverse=direction == "GT")
        if direction == "GT":
            expected = sorted(range(20), key=lambda k: -keys[k])
        assert at.tolist() == expected
        assert found.tobytes() == row[expected].tobytes()


def test_total_order_of_floats():
    values = np.float32([3, -0.0, np.nan, 0.0, -np.inf, np.inf, -1, 1e-45])
    values = np.append(values, np.copysign(np.float32(np.nan), np.float32(-1)))
    text = module(
        "ROOT r = pred[] compare(a0, b0), direction=LT, type=TOTALORDER", ["f32", "s32"], (9,)
    )
    found, order = arrays(text, values, np.arange(9, dtype=np.int32))
    assert order.tolist() == [8, 4, 6, 1, 3, 7, 0, 5, 2]
    assert found.tobytes() == values[order].tobytes()


LEXICOGRAPHIC = {
    "or": """lt0 = pred[] compare(a0, b0), direction=LT
      eq0 = pred[] compare(a0, b0), direction=EQ
      gt1 = pred[] compare(a1, b1), direction=GT
      n = pred[] and(eq0, gt1)
      ROOT r = pred[] or(lt0, n)""",
    "select": """lt0 = pred[] compare(b0, a0), direction=GT
      ne0 = pred[] compare(a0, b0), direction=NE
      gt1 = pred[] compare(b1, a1), direction=LT
      ROOT r = pred[] select(ne0, lt0, gt1)""",
}


@pytest.mark.parametrize("form", LEXICOGRAPHIC)
def test_two_keys(form):
    rng = np.random.default_rng(1)
    x, y = (rng.integers(0, 3, 50).astype(np.int32) for _ in range(2))
    n = np.arange(50, dtype=np.int32)
    text = module(LEXICOGRAPHIC[form], ["s32", "s32", "s32"], (50,))
    assert is_recognised(text)
    order = arrays(text, x, y, n)[2]
    assert order.tolist() == sorted(range(50), key=lambda k: (x[k], -y[k]))


CLEANED = """zero = f32[] constant(0)
      unset = f32[] constant(nan)
      za = pred[] compare(a0, zero), direction=EQ
      ca = f32[] select(za, zero, a0)
      na = pred[] compare(a0, a0), direction=NE
      da = f32[] select(na, unset, ca)
      zb = pred[] compare(b0, zero), direction=EQ
      cb = f32[] select(zb, zero, b0)
      nb = pred[] compare(b0, b0), direction=NE
      db = f32[] select(nb, unset, cb)
      ROOT r = pred[] compare(da, db), direction=LT, type=TOTALORDER"""


def test_cleaned_keys_put_nan_last_and_zeros_together():
    x = np.float32([np.nan, 0.0, 2, -0.0, -np.nan, 0.0, -1])
    text = module(CLEANED, ["f32", "s32"], (7,))
    assert is_recognised(text)
    order = arrays(text, x, np.arange(7, dtype=np.int32))[1]
    assert order.tolist() == [6, 1, 3, 5, 2, 0, 4]


ODD_COMPARATORS = {
    "last digit": (
        """ten = s32[] constant(10)
      ra = s32[] remainder(a0, ten)
      rb = s32[] remainder(b0, ten)
      d = s32[] subtract(ra, rb)
      zero = s32[] constant(0)
      ROOT r = pred[] compare(d, zero), direction=LT""",
        lambda a, b: a % 10 < b % 10,
    ),
    "reversed ties": (
        "ROOT r = pred[] compare(a0, b0), direction=LE",
        None,
    ),
    "even first": (
        """one = s32[] constant(1)
      pa = s32[] and(a0, one)
      pb = s32[] and(b0, one)
      lt = pred[] compare(a0, b0), direction=LT
      pl = pred[] compare(pa, pb), direction=LT
      pe = pred[] compare(pa, pb), direction=EQ
      n = pred[] and(lt, pe)
      ROOT r = pred[] or(n, pl)""",
        lambda a, b: (a % 2, a) < (b % 2, b),
    ),
}


@pytest.mark.parametrize("limit", [sort.LIBRARY_LENGTH, 0])
@pytest.mark.parametrize("name", ODD_COMPARATORS)
@settings(max_examples=40)
@given(st.lists(st.integers(0, 99), max_size=40), st.integers(1, 3))
def test_any_comparator(name, limit, values, rows):
    """Both algorithms: with a limit of 0 no row is short enough for the library's."""
    body, less = ODD_COMPARATORS[name]
    rng = np.random.default_rng(len(values))
    x = np.array([rng.permutation(values) for _ in range(rows)], np.int32)
    x = x.reshape(rows, len(values))
    n = np.tile(np.arange(len(values), dtype=np.int32), (rows, 1))
    before, sort.LIBRARY_LENGTH = sort.LIBRARY_LENGTH, limit
    try:
        found, order = arrays(module(body, ["s32", "s32"], x.shape, axis=1), x, n)
    finally:
        sort.LIBRARY_LENGTH = before
    for row, line, at in zip(x, found, order):
        if less is None:
            expected = sorted(range(len(values)), key=lambda k: (row[k], -k))
        else:
            expected = stable([int(v) for v in row], less)
        assert at.tolist() == expected
        assert line.tolist() == row[expected].tolist()


@pytest.mark.parametrize(
    "body",
    [
        "ROOT r = pred[] constant(true)",
        "ROOT r = pred[] constant(false)",
        "ROOT r = pred[] compare(a0, b0), direction=NE",
        "ROOT r = pred[] compare(a0, b0), direction=LT",
    ],
)
@pytest.mark.parametrize("count", [33, 3000])
def test_comparators_that_contradict_themselves_still_permute(body, count):
    x = np.random.default_rng(0).normal(size=(2, count)).astype(np.float32)
    x[:, ::5] = np.nan
    n = np.tile(np.arange(count, dtype=np.int32), (2, 1))
    found, order = arrays(module(body, ["f32", "s32"], x.shape, axis=1), x, n)
    for row, line, at in zip(x, found, order):
        assert sorted(at.tolist()) == list(range(count))
        assert line.tobytes() == row[at].tobytes()


def library_sort(row):
    """GCC's std::stable_sort, step by step on Python lists."""

    def insert(part):
        out = []
        for v in part:
            k = 0 if out and v < out[0] else len(out)
            while k and v < out[k - 1]:
                k -= 1
            out.insert(k, v)
        return out

    def merge(p, q):
        out = []
        while p and q:
            out.append(q.pop(0) if q[0] < p[0] else p.pop(0))
        return out + p + q

    def halved(part):
        runs = [insert(part[k : k + 7]) for k in range(0, len(part), 7)]
        while len(runs) > 1:
            runs = [
                merge(runs[k], (runs[k + 1 : k + 2] or [[]])[0]) for k in range(0, len(runs), 2)
            ]
        return runs[0] if runs else []

    half = (len(row) + 1) // 2
    p, q = halved(row[:half]), halved(row[half:])
    if len(p) == len(q):
        return merge(p, q)
    out = []
    while p and q:
        out.append(p.pop() if q[-1] < p[-1] else q.pop())
    return p + q + out[::-1]


@pytest.mark.parametrize("count", [2, 3, 5, 7, 8, 14, 15, 16, 29, 64, 100, 211])
def test_nan_in_a_plain_comparison_ends_up_where_xla_has_it(count):
    rng = np.random.default_rng(count)
    x = rng.integers(0, 30, (3, count)).astype(np.float32)
    x[rng.random(x.shape) < 0.2] = np.nan
    text = module("ROOT r = pred[] compare(a0, b0), direction=LT", ["f32"], x.shape, axis=1)
    (found,) = arrays(text, x)
    for row, line in zip(x, found):
        np.testing.assert_array_equal(line, library_sort(row.tolist()))


@pytest.mark.parametrize("dims", [(0,), (1,), (3, 0), (0, 3), (2, 1)])
def test_nothing_to_sort(dims):
    x = np.zeros(dims, np.float32)
    text = module("ROOT r = pred[] compare(a0, b0), direction=LT", ["f32"], dims, len(dims) - 1)
    assert arrays(text, x)[0].shape == dims


def test_every_axis():
    x = np.random.default_rng(0).integers(0, 99, (4, 5, 6)).astype(np.int32)
    for axis in range(3):
        text = module("ROOT r = pred[] compare(a0, b0), direction=LT", ["s32"], x.shape, axis)
        np.testing.assert_array_equal(arrays(text, x)[0], np.sort(x, axis))


def top(t, dims, k, largest):
    shape = ",".join(map(str, dims))
    out = ",".join(map(str, (*dims[:-1], k)))
    return f"""ENTRY e {{
      x = {t}[{shape}] parameter(0)
      ROOT r = ({t}[{out}], s32[{out}]) topk(x), k={k}, largest={str(largest).lower()} }}"""


def test_topk_orders_nan_and_ties_as_the_sort_does():
    """An example by hand."""
    values, at = arrays(top("f32", (4,), 4, True), np.float32([3, 1, 3, np.nan]))
    assert at.tolist() == [3, 0, 2, 1]
    assert np.isnan(values[0]) and values[1:].tolist() == [3, 3, 1]
    values, at = arrays(top("f32", (4,), 4, False), np.float32([3, 1, 3, np.nan]))
    assert at.tolist() == [1, 0, 2, 3]


def test_topk_is_in_total_order():
    x = np.float32([3, np.copysign(np.nan, -1), -0.0, 0.0, np.nan, np.inf])
    assert arrays(top("f32", (6,), 6, True), x)[1].tolist() == [4, 5, 0, 3, 2, 1]
    assert arrays(top("f32", (6,), 6, False), x)[1].tolist() == [1, 2, 3, 0, 5, 4]


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("t", [t for t in ARRAY_TYPES if not t.is_complex], ids=str)
def test_topk_of_every_type(t, largest):
    rng = np.random.default_rng(2)
    x = np.exp2(rng.integers(0, 3, (2, 9))).astype(np.float32).astype(t.numpy)
    values, at = arrays(top(t, x.shape, 4, largest), x)
    for row, found, where in zip(x, values, at):
        keys = row.astype(np.float64)
        expected = sorted(range(9), key=lambda k: -keys[k] if largest else keys[k])[:4]
        assert where.tolist() == expected
        assert found.tobytes() == row[expected].tobytes()


@pytest.mark.parametrize("body", ["ROOT r = pred[] compare(a0, b0), direction=LT", CLEANED])
def test_a_million_floats(body):
    x = np.random.default_rng(0).normal(size=1_000_000).astype(np.float32)
    with at_most(10):
        (found,) = arrays(module(body, ["f32"], x.shape), x)
    np.testing.assert_array_equal(found, np.sort(x))


def test_bf16_keys_with_payload():
    x = np.float32([2, 1, 2, 0.5]).astype(ml_dtypes.bfloat16)
    text = module("ROOT r = pred[] compare(a0, b0), direction=GT", ["bf16", "u4"], (4,))
    values, payload = arrays(text, x, np.arange(4).astype(dtype("u4").numpy))
    assert values.tolist() == [2, 2, 1, 0.5]
    assert payload.astype(int).tolist() == [0, 2, 1, 3]


def test_a_bitcast_in_a_comparator_keeps_it_a_key():
    body = """
      x = s32[] bitcast(a0)
      y = s32[] bitcast(b0)
      ROOT r = pred[] compare(x, y), direction=LT
    """
    text = module(body, ["f32"], [20_000])
    values = np.abs(np.random.default_rng(0).standard_normal(20_000)).astype(np.float32)
    read = parse_module("HloModule m\n" + text)
    comparator = next(c for c in read.computations if not c.is_entry)
    assert keys_of(comparator) is not None
    assert np.array_equal(arrays(text, values)[0], np.sort(values))
