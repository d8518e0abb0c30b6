"""Data movement against loops over elements, for every type and for run-time sizes."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloom.base.diagnostics import EvalError
from hloom.interp import EvalOptions, evaluate
from hloom.ir.text import parse_module
from hloom.ir.values.padding import Padding
from hloom.ir.values.slices import Slices
from hloom.types.dtype import ARRAY_TYPES, dtype


def arrays(text, *arguments):
    result = evaluate(parse_module("HloModule m\n" + text), *arguments)
    return [e.array for e in result.elements] if result.is_tuple else [result.array]


def sizes(dims):
    return ",".join(map(str, dims))


def one(result, expression, *shapes):
    """A module of one operation on parameters x0, x1, ... of these shapes."""
    lines = "\n".join(f"x{k} = {s} parameter({k})" for k, s in enumerate(shapes))
    return f"ENTRY e {{\n{lines}\nROOT r = {result} {expression}\n}}"


def counted(dims, t=np.int32):
    return np.arange(int(np.prod(dims))).reshape(dims).astype(t)


small_dims = st.lists(st.integers(0, 4), max_size=3)


@settings(max_examples=100)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=3), st.data())
def test_pad(dims, data):
    number = st.integers(-3, 3)
    spec = [(data.draw(number), data.draw(number), data.draw(st.integers(0, 2))) for _ in dims]
    padding = Padding.of(*spec)
    out = [max(0, d.output_size(n)) for d, n in zip(padding.dimensions, dims)]
    if any(d.output_size(n) < 0 for d, n in zip(padding.dimensions, dims)):
        return
    x = counted(dims) + 1
    text = one(
        f"s32[{sizes(out)}]", f"pad(x0, x1), padding={padding.text}", f"s32[{sizes(dims)}]", "s32[]"
    )
    (found,) = arrays(text, x, np.int32(-7))
    expected = np.full(out, -7)
    for at in np.ndindex(*dims):
        to = tuple(low + k * (inner + 1) for k, (low, _, inner) in zip(at, spec))
        if all(0 <= k < n for k, n in zip(to, out)):
            expected[to] = x[at]
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=60)
@given(small_dims, st.data())
def test_slice_reverse_transpose_broadcast(dims, data):
    x = counted(dims)
    shape = f"s32[{sizes(dims)}]"
    ranges = []
    for n in dims:
        start = data.draw(st.integers(0, n))
        ranges.append((start, data.draw(st.integers(start, n)), data.draw(st.integers(1, 3))))
    cut = Slices.of(*ranges)
    out = [d.size for d in cut.dimensions]
    (found,) = arrays(one(f"s32[{sizes(out)}]", f"slice(x0), slice={cut.text}", shape), x)
    for at in np.ndindex(*out):
        assert found[at] == x[tuple(s + k * step for k, (s, _, step) in zip(at, ranges))]

    axes = data.draw(st.sets(st.integers(0, len(dims) - 1))) if dims else set()
    (found,) = arrays(one(shape, f"reverse(x0), dimensions={{{sizes(axes)}}}", shape), x)
    for at in np.ndindex(*dims):
        assert (
            found[at]
            == x[tuple(n - 1 - k if d in axes else k for d, (k, n) in enumerate(zip(at, dims)))]
        )

    order = data.draw(st.permutations(range(len(dims))))
    out = [dims[d] for d in order]
    (found,) = arrays(
        one(f"s32[{sizes(out)}]", f"transpose(x0), dimensions={{{sizes(order)}}}", shape), x
    )
    for at in np.ndindex(*out):
        from_at = [0] * len(dims)
        for k, d in enumerate(order):
            from_at[d] = at[k]
        assert found[at] == x[tuple(from_at)]

    extra = data.draw(st.lists(st.integers(0, 3), max_size=2))
    places = data.draw(st.permutations(range(len(dims) + len(extra))))[: len(dims)]
    rest = iter(extra)
    out = [
        dims[places.index(k)] if k in places else next(rest) for k in range(len(dims) + len(extra))
    ]
    (found,) = arrays(
        one(f"s32[{sizes(out)}]", f"broadcast(x0), dimensions={{{sizes(places)}}}", shape), x
    )
    assert found.shape == tuple(out)
    for at in np.ndindex(*out):
        assert found[at] == x[tuple(at[p] for p in places)]


@pytest.mark.parametrize("t", ARRAY_TYPES, ids=str)
def test_every_type_moves_unchanged(t):
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 2 ** min(t.bits, 4), (3, 4)).astype(np.float32)
    x = raw.astype(t.numpy)
    zero = np.zeros((), t.numpy)
    text = f"""ENTRY e {{
      x = {t}[3,4] parameter(0)
      z = {t}[] parameter(1)
      i = s32[] constant(1)
      a = {t}[4,3] transpose(x), dimensions={{1,0}}
      b = {t}[2,6] reshape(x)
      c = {t}[6,4] concatenate(x, x), dimensions={{0}}
      d = {t}[5,4] pad(x, z), padding=1_1x0_0
      f = {t}[3,4] reverse(x), dimensions={{1}}
      g = {t}[2,2] dynamic-slice(x, i, i), dynamic_slice_sizes={{2,2}}
      h = {t}[3,4] dynamic-update-slice(x, g, i, i)
      j = {t}[2,3,4] broadcast(x), dimensions={{1,2}}
      k = {t}[3,4] copy(x)
      ROOT r = ({t}[4,3], {t}[2,6], {t}[6,4], {t}[5,4], {t}[3,4], {t}[2,2], {t}[3,4],
        {t}[2,3,4], {t}[3,4]) tuple(a, b, c, d, f, g, h, j, k) }}"""
    padded = np.zeros((5, 4), t.numpy)
    padded[1:4] = x
    expected = [
        x.T,
        x.reshape(2, 6),
        np.concatenate([x, x]),
        padded,
        x[:, ::-1],
        x[1:3, 1:3],
        x,
        np.stack([x, x]),
        x,
    ]
    for found, wanted in zip(arrays(text, x, zero), expected):
        assert found.dtype == t.numpy
        assert found.shape == wanted.shape
        assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("t", [t for t in ARRAY_TYPES if not t.is_pred], ids=str)
def test_iota(t):
    for dimension in range(2):
        (found,) = arrays(one(f"{t}[3,5]", f"iota(), iota_dimension={dimension}"))
        line = np.arange((3, 5)[dimension])
        if t.is_integral and t.bits < 8:
            line &= 2**t.bits - 1
            if t.is_signed_int:
                line = np.where(line >= 2 ** (t.bits - 1), line - 2**t.bits, line)
        line = line.astype(np.float32).astype(t.numpy)
        assert (
            found.tobytes()
            == np.broadcast_to(line[:, None] if dimension == 0 else line, (3, 5)).tobytes()
        )


@pytest.mark.parametrize("index_type", ["s4", "u8", "s8", "s32", "u32", "s64", "u64"])
def test_starts_are_clamped(index_type):
    t = dtype(index_type)
    x, update = counted((5, 6)), np.full((2, 3), -1, np.int32)
    low, high = (
        (-(2 ** (t.bits - 1)), 2 ** (t.bits - 1) - 1) if t.is_signed_int else (0, 2**t.bits - 1)
    )
    shapes = "s32[5,6]", "s32[2,3]", f"{t}[]", f"{t}[]"
    for i, j in itertools.product((low, 0, 1, 3, high), repeat=2):
        a, b = min(max(i, 0), 3), min(max(j, 0), 3)
        starts = np.array(i).astype(t.numpy), np.array(j).astype(t.numpy)
        text = one("s32[2,3]", "dynamic-slice(x0, x2, x3), dynamic_slice_sizes={2,3}", *shapes)
        (found,) = arrays(text, x, update, *starts)
        np.testing.assert_array_equal(found, x[a : a + 2, b : b + 3])
        (found,) = arrays(
            one("s32[5,6]", "dynamic-update-slice(x0, x1, x2, x3)", *shapes), x, update, *starts
        )
        expected = x.copy()
        expected[a : a + 2, b : b + 3] = -1
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(x, counted((5, 6)))


# -- bitcast ------------------------------------------------------------------------------------


def test_bitcast_follows_layouts():
    x = counted((2, 3))
    (found,) = arrays(one("s32[3,2]{1,0}", "bitcast(x0)", "s32[2,3]{0,1}"), x)
    np.testing.assert_array_equal(found, x.T)
    (found,) = arrays(one("s32[6]{0}", "bitcast(x0)", "s32[2,3]{0,1}"), x)
    np.testing.assert_array_equal(found, x.T.reshape(-1))
    (found,) = arrays(one("s32[2,3]{0,1}", "bitcast(x0)", "s32[6]{0}"), x.reshape(-1))
    np.testing.assert_array_equal(found, counted((3, 2)).T)


def test_bitcast_follows_tiles():
    x = counted((4, 6))
    tiled = [
        [x[2 * i + a, 3 * j + b] for a in range(2) for b in range(3)]
        for i in range(2)
        for j in range(2)
    ]
    (found,) = arrays(one("s32[4,6]{1,0}", "bitcast(x0)", "s32[4,6]{1,0:T(2,3)}"), x)
    np.testing.assert_array_equal(found.reshape(4, 6), np.array(tiled))
    (back,) = arrays(one("s32[4,6]{1,0:T(2,3)}", "bitcast(x0)", "s32[4,6]{1,0}"), found)
    np.testing.assert_array_equal(back, x)
    y = counted((3, 5))
    (found,) = arrays(one("s32[1,3,5]{2,1,0:T(2,4)}", "bitcast(x0)", "s32[3,5]{1,0:T(2,4)}"), y)
    np.testing.assert_array_equal(found, y[None])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f32[3]", "s32[3]"),
        ("u8[8]", "f64[1]"),
        ("c64[2,2]", "f32[2,2,2]"),
        ("bf16[2,4]", "u32[4]"),
        ("f8e5m2[6]", "s8[2,3]"),
    ],
)
def test_bitcast_reads_bytes(before, after):
    m = parse_module("HloModule m\n" + one(after, "bitcast(x0)", before))
    shape = m.entry.parameters[0].shape
    raw = np.random.default_rng(0).integers(0, 128, shape.size_bytes).astype(np.uint8)
    x = raw.view(shape.dtype.numpy).reshape(shape.dims)
    found = evaluate(m, x).array
    assert found.shape == m.entry.root.shape.dims
    assert found.tobytes() == x.tobytes()


def test_bitcast_of_packed_elements():
    x = np.array([1, -2, 3, -8]).astype(dtype("s4").numpy)
    (found,) = arrays(one("u8[2]", "bitcast(x0)", "s4[4]{0:E(4)}"), x)
    assert sorted(found.tolist()) in ([0x83, 0xE1], [0x38, 0x1E])
    (back,) = arrays(one("s4[4]{0:E(4)}", "bitcast(x0)", "u8[2]"), found)
    assert back.tobytes() == x.tobytes()


# -- run-time sizes -----------------------------------------------------------------------------


def resized(rest, result, bound=(4, 3)):
    """A program on f = the first n rows of x."""
    rows, columns = bound
    return f"""ENTRY e {{
      x = s32[{rows},{columns}] parameter(0)
      n = s32[] parameter(1)
      f = s32[<={rows},{columns}] set-dimension-size(x, n), dimensions={{0}}
      {rest.replace("ROOT r", f"ROOT r = {result}")} }}"""


@pytest.mark.parametrize("n", range(5))
def test_run_time_sizes(n):
    x, size = counted((4, 3)), np.int32(n)
    cut = x[:n]
    cases = {
        ("ROOT r reverse(f), dimensions={1}", "s32[<=4,3]"): cut[:, ::-1],
        ("ROOT r concatenate(f, x), dimensions={0}", "s32[<=8,3]"): np.concatenate([cut, x]),
        ("ROOT r transpose(f), dimensions={1,0}", "s32[3,<=4]"): cut.T,
        ("ROOT r reshape(f)", "s32[<=12]"): cut.reshape(-1),
        ("ROOT r reshape(f)", "s32[<=4,1,3]"): cut[:, None],
        ("ROOT r broadcast(f), dimensions={1,2}", "s32[2,<=4,3]"): np.stack([cut, cut]),
        ("ROOT r get-dimension-size(f), dimensions={0}", "s32[]"): size,
        ("m = s32[] constant(4)\nROOT r set-dimension-size(f, m), dimensions={0}", "s32[<=4,3]"): x,
        ("z = s32[] constant(9)\nROOT r pad(f, z), padding=1_0x0_0", "s32[<=5,3]"): np.concatenate(
            [np.full((1, 3), 9), cut]
        ),
    }
    for (rest, result), expected in cases.items():
        (found,) = arrays(resized(rest, result), x, size)
        np.testing.assert_array_equal(found, expected)


def test_dynamic_reshape():
    rest = """a = s32[] constant(3)
      ROOT r dynamic-reshape(f, a, n)"""
    (found,) = arrays(resized(rest, "s32[<=3,<=4]"), counted((4, 3)), np.int32(2))
    np.testing.assert_array_equal(found, counted((3, 2)))


def test_sizes_that_do_not_fit():
    with pytest.raises(EvalError, match="run-time size 5"):
        arrays(resized("ROOT r copy(f)", "s32[<=4,3]"), counted((4, 3)), np.int32(5))
    with pytest.raises(EvalError, match="cannot reshape 6 elements"):
        rest = "ROOT r dynamic-reshape(f, n, n)"
        arrays(resized(rest, "s32[<=3,<=4]"), counted((4, 3)), np.int32(2))


def test_counts_of_no_elements_take_no_memory():
    assert arrays("ENTRY e { ROOT r = f32[0,4000000000000] iota(), iota_dimension=1 }")[0].size == 0
    with pytest.raises(EvalError, match="scratch memory"):
        evaluate(
            parse_module("HloModule m\nENTRY e { ROOT r = u8[1000000] iota(), iota_dimension=0 }"),
            options=EvalOptions(memory_limit_bytes=1 << 24),
        )
