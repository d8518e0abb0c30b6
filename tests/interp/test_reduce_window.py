"""Reduce-window and select-and-scatter against loops over positions and window elements."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloom.base.diagnostics import EvalError
from hloom.interp import EvalOptions, evaluate, reduce_window
from hloom.interp.reduce_window import covered
from hloom.ir.text import parse_module
from hloom.ir.values.window import Window, WindowDimension
from hloom.types.dtype import ARRAY_TYPES

COMBINERS = {
    "add": ("add(a, b)", lambda a, b: a + b),
    "maximum": ("maximum(a, b)", max),
    "minimum": ("minimum(b, a)", min),
    "xor": ("xor(a, b)", lambda a, b: a ^ b),
    # Associative but not commutative: the last one.
    "last": ("copy(b)", lambda a, b: b),
}


def combiner(expression, element_type="s32"):
    return f"""f {{
  a = {element_type}[] parameter(0)
  b = {element_type}[] parameter(1)
  ROOT r = {element_type}[] {expression}
}}
"""


MIX = """f {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  three = s32[] constant(3)
  m = s32[] multiply(a, three)
  ROOT r = s32[] add(m, b)
}
"""


def arrays(text, *arguments):
    result = evaluate(parse_module("HloModule m\n" + text), *arguments)
    return [e.array for e in result.elements] if result.is_tuple else [result.array]


def sizes(dims):
    return ",".join(map(str, dims))


def touched(window, base, position):
    """The base elements under one window position, in row-major order of the window."""
    for offset in itertools.product(*(range(d.size) for d in window.dimensions)):
        at = []
        for d, p, k, n in zip(window.dimensions, position, offset, base):
            k = d.size - 1 - k if d.window_reversal else k
            place = p * d.stride + k * d.window_dilation - d.padding_low
            if place < 0 or place % d.base_dilation or place // d.base_dilation >= n:
                break
            at.append(place // d.base_dilation)
        else:
            yield tuple(at)


def out_dims(window, base):
    return [d.output_size(n) for d, n in zip(window.dimensions, base)]


def slow(x, init, window, fold):
    out = np.zeros(out_dims(window, x.shape), np.int64)
    for position in np.ndindex(*out.shape):
        total = int(init)
        for at in touched(window, x.shape, position):
            total = fold(total, int(x[at]))
        out[position] = total
    return out.astype(np.int32)


dimension = st.builds(
    WindowDimension,
    size=st.integers(1, 4),
    stride=st.integers(1, 3),
    padding_low=st.integers(-2, 3),
    padding_high=st.integers(-2, 3),
    window_dilation=st.integers(1, 3),
    base_dilation=st.integers(1, 3),
    window_reversal=st.booleans(),
)


@settings(max_examples=300)
@given(dimension, st.integers(0, 6))
def test_covered_says_where_window_elements_lie(d, base):
    positions = d.output_size(base)
    for offset in range(d.size):
        k = d.size - 1 - offset if d.window_reversal else offset
        expected = []
        for p in range(positions):
            place = p * d.stride + k * d.window_dilation - d.padding_low
            if place >= 0 and place % d.base_dilation == 0 and place // d.base_dilation < base:
                expected.append((p, place // d.base_dilation))
        where, elements = covered(d, offset, base, positions)
        assert list(zip(range(positions)[where], range(base)[elements])) == expected


@pytest.mark.parametrize("small", [reduce_window.SMALL_WINDOW, 0])
@settings(max_examples=60)
@given(st.lists(st.tuples(dimension, st.integers(0, 6)), min_size=0, max_size=3), st.data())
def test_reduce_window(small, drawn, data):
    """Both ways of computing it; SMALL_WINDOW = 0 forces doubling."""
    window, base = Window(tuple(d for d, _ in drawn)), [n for _, n in drawn]
    names = list(COMBINERS) + (["mix"] if small else [])
    name = data.draw(st.sampled_from(names))
    text, fold = (
        (MIX, lambda a, b: a * 3 + b)
        if name == "mix"
        else (combiner(COMBINERS[name][0]), COMBINERS[name][1])
    )
    x = np.random.default_rng(data.draw(st.integers(0, 99))).integers(-9, 9, base, np.int32)
    text += f"""ENTRY e {{
      x = s32[{sizes(base)}] parameter(0)
      i = s32[] constant(5)
      ROOT r = s32[{sizes(out_dims(window, base))}] reduce-window(x, i), window={window.text},
        to_apply=f }}"""
    before, reduce_window.SMALL_WINDOW = reduce_window.SMALL_WINDOW, small
    try:
        (found,) = arrays(text, x)
    finally:
        reduce_window.SMALL_WINDOW = before
    np.testing.assert_array_equal(found, slow(x, 5, window, fold))


PAIRS = """f {
  a = s32[] parameter(0)
  k = s32[] parameter(1)
  b = s32[] parameter(2)
  j = s32[] parameter(3)
  keep = pred[] compare(a, b), direction=GE
  x = s32[] select(keep, a, b)
  n = s32[] select(keep, k, j)
  ROOT r = (s32[], s32[]) tuple(x, n)
}
"""


@pytest.mark.parametrize("size", [3, 300])
def test_reduce_window_of_pairs(size):
    x = np.random.default_rng(0).integers(-20, 20, 310).astype(np.int32)
    window = Window.of((size,), (2,), ((2, 1),))
    count = out_dims(window, (310,))[0]
    text = (
        PAIRS
        + f"""ENTRY e {{
      x = s32[310] parameter(0)
      n = s32[310] iota(), iota_dimension=0
      i = s32[] constant(-100)
      z = s32[] constant(-1)
      ROOT r = (s32[{count}], s32[{count}]) reduce-window(x, n, i, z), window={window.text},
        to_apply=f }}"""
    )
    best, at = arrays(text, x)
    for p in range(count):
        elements = [k for (k,) in touched(window, (310,), (p,))]
        winner = max(elements, key=lambda k: x[k])
        assert (best[p], at[p]) == (x[winner], winner)


@pytest.mark.parametrize("t", [t for t in ARRAY_TYPES if not t.is_complex], ids=str)
def test_every_type(t):
    low = 0.5 if t.name == "f8e8m0fnu" else 0
    x = np.array([1, low, 1, 1], np.float32).astype(t.numpy)
    smallest = min(x[0], x[1])
    text = (
        combiner("maximum(a, b)", t)
        + f"""ENTRY e {{
      x = {t}[4] parameter(0)
      i = {t}[] parameter(1)
      ROOT r = {t}[3] reduce-window(x, i), window={{size=2}}, to_apply=f }}"""
    )
    (found,) = arrays(text, x, np.asarray(smallest))
    assert found.dtype == t.numpy
    expected = [max(x[k], x[k + 1], smallest) for k in range(3)]
    assert found.tolist() == np.array(expected, t.numpy).tolist()


def test_a_long_running_sum():
    count = 100_000
    x = np.random.default_rng(0).normal(size=count).astype(np.float32)
    window = Window.of((count,), None, ((count - 1, 0),))
    text = (
        combiner("add(a, b)", "f32")
        + f"""ENTRY e {{
      x = f32[{count}] parameter(0)
      i = f32[] constant(0)
      ROOT r = f32[{count}] reduce-window(x, i), window={window.text}, to_apply=f }}"""
    )
    (found,) = arrays(text, x)
    np.testing.assert_allclose(found, np.cumsum(x.astype(np.float64)), rtol=1e-5, atol=1e-4)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 3),
            st.integers(1, 3),
            st.integers(0, 2),
            st.integers(0, 2),
            st.integers(1, 5),
        ),
        min_size=1,
        max_size=2,
    ),
    st.sampled_from(["GE", "LT", "GT"]),
    st.booleans(),
    st.integers(0, 99),
)
def test_select_and_scatter(drawn, direction, known, seed):
    window = Window(tuple(WindowDimension(n, s, low, high) for n, s, low, high, _ in drawn))
    base = [n for *_, n in drawn]
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 3, base).astype(np.int32)
    source = rng.integers(-9, 9, out_dims(window, base)).astype(np.int32)
    select = f"""g {{
      a = s32[] parameter(0)
      b = s32[] parameter(1)
      ROOT r = pred[] compare(a, b), direction={direction} }}
    """
    text = (
        (combiner("add(a, b)") if known else MIX)
        + select
        + f"""ENTRY e {{
      x = s32[{sizes(base)}] parameter(0)
      s = s32[{sizes(source.shape)}] parameter(1)
      i = s32[] constant(2)
      ROOT r = s32[{sizes(base)}] select-and-scatter(x, s, i), window={window.text}, select=g,
        scatter=f }}"""
    )
    (found,) = arrays(text, x, source)
    holds = {"GE": np.greater_equal, "LT": np.less, "GT": np.greater}[direction]
    expected = np.full(base, 2, np.int64)
    for position in np.ndindex(*source.shape):
        chosen = None
        for at in touched(window, base, position):
            if chosen is None or not holds(x[chosen], x[at]):
                chosen = at
        if chosen is not None:
            expected[chosen] = expected[chosen] * (1 if known else 3) + source[position]
    np.testing.assert_array_equal(found, expected.astype(np.int32))


HUGE = 4_000_000_000


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize(
    ("words", "positions"),
    [
        (f"size={HUGE} pad={HUGE}_0", 5),
        (f"size={HUGE} pad=0_{HUGE}", 5),
        (f"size={HUGE} stride={HUGE} pad={HUGE}_{2 * HUGE}", 3),
        (f"size=1 stride={HUGE} pad=0_{2 * HUGE}", 3),
        (f"size=2 rhs_dilate={HUGE} pad={HUGE}_0", 4),
        (f"size=4 stride={HUGE} lhs_dilate={HUGE} rhs_dilate={HUGE}", 1),
        (f"size={3 * HUGE + 1} lhs_dilate={HUGE} pad=7_-7", 1),
    ],
)
def test_windows_much_longer_than_their_base(words, positions, reverse):
    x = np.array([3, 5, 7, 11], np.int32)
    words += f" rhs_reversal={reverse}"
    body = f"""
    {MIX}ENTRY e {{
      x = s32[4] parameter(0)
      c = s32[] constant(1)
      ROOT r = s32[{positions}] reduce-window(x, c), window={{{words}}}, to_apply=f
    }}"""
    module = parse_module("HloModule m\n" + body)
    (window,) = module.entry.root.attrs.window.dimensions
    expected = []
    for p in range(positions):
        met = []
        for e, value in enumerate(x):
            place = e * window.base_dilation + window.padding_low - p * window.stride
            k, beside = divmod(place, window.window_dilation)
            if not beside and 0 <= k < window.size:
                met.append((-k if reverse else k, value))
        total = 1
        for _, value in sorted(met):
            total = total * 3 + value
        expected.append(total)
    assert arrays(body, x)[0].tolist() == expected


def test_choices_in_windows_much_longer_than_their_base():
    body = f"""
    ge {{ a = s32[] parameter(0)\n b = s32[] parameter(1)
      ROOT r = pred[] compare(a, b), direction=GE }}
    {combiner("add(a, b)")}ENTRY e {{
      x = s32[4] parameter(0)
      s = s32[5] parameter(1)
      c = s32[] constant(0)
      ROOT r = s32[4] select-and-scatter(x, s, c),
        window={{size={HUGE} pad={HUGE}_0}}, select=ge, scatter=f
    }}"""
    x, s = np.array([3, 7, 5, 7], np.int32), np.array([1, 2, 4, 8, 16], np.int32)
    # The window's last place is before the base, on its element 0, 1, 2 and 3.
    assert arrays(body, x, s)[0].tolist() == [2, 4 + 8 + 16, 0, 0]


@pytest.mark.parametrize(
    "operation",
    [
        f"reduce-window(x, c), window={{size=300 stride={HUGE} pad=0_{HUGE}}}, to_apply=f",
        "convolution(x, k), window={size=2 stride=HUGE pad=0_HUGE}, dim_labels=0bf_0io->0bf",
    ],
)
def test_padding_that_no_memory_holds(operation):
    operation = operation.replace("HUGE", str(HUGE))
    is_window = operation.startswith("reduce")
    shapes = ("4096", "2", "2") if is_window else ("4,1,1", "2,1,1", "2,1,1")
    body = f"""
    {combiner("add(a, b)", "f32")}ENTRY e {{
      x = f32[{shapes[0]}] parameter(0)
      k = f32[{shapes[1]}] parameter(1)
      c = f32[] constant(0)
      ROOT r = f32[{shapes[2]}] {operation}
    }}"""
    sizes = [[int(n) for n in s.split(",")] for s in shapes]
    given = [np.ones(s, np.float32) for s in sizes[:2]]
    options = EvalOptions(memory_limit_bytes=1 << 26)
    with pytest.raises(EvalError, match="bytes of scratch memory, more than the 67108864"):
        evaluate(parse_module("HloModule m\n" + body), *given, options=options)


def test_window_whose_result_has_other_sizes():
    """No text says a negative size, a message or a caller of the API can."""
    module = parse_module(
        f"HloModule m\n{combiner('add(a, b)')}ENTRY e {{ x = s32[4] parameter(0)\n"
        " c = s32[] constant(0)\n"
        " ROOT r = s32[3] reduce-window(x, c), window={size=2}, to_apply=f }"
    )
    root = module.entry.root
    root.attrs = replace(root.attrs, window=Window((WindowDimension(-(2**31)),)))
    with pytest.raises(EvalError, match=r"gives sizes \[2147483653\], not s32\[3\]"):
        evaluate(module, np.zeros(4, np.int32))
