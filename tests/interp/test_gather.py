"""Gather and scatter against loops over result elements, attributes drawn at random."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloom.interp import evaluate
from hloom.ir.text import parse_module
from hloom.types.dtype import ARRAY_TYPES, dtype
from tests.processor_time import at_most


def arrays(text, *arguments):
    result = evaluate(parse_module("HloModule m\n" + text), *arguments)
    return [e.array for e in result.elements] if result.is_tuple else [result.array]


def sizes(dims):
    return ",".join(map(str, dims))


class Numbers:
    """Drawn dimension numbers, shared by gather and scatter."""

    def __init__(self, data):
        draw = data.draw
        rank = draw(st.integers(1, 4))
        self.full = [draw(st.integers(1, 4)) for _ in range(rank)]
        role = [draw(st.sampled_from(["batch", "collapsed", "window"])) for _ in range(rank)]
        self.batching = [d for d in range(rank) if role[d] == "batch"]
        self.collapsed = [d for d in range(rank) if role[d] == "collapsed"]
        self.window = [d for d in range(rank) if role[d] == "window"]
        free = self.collapsed + self.window
        self.slices = [
            draw(st.integers(0, n)) if d in self.window else 1 for d, n in enumerate(self.full)
        ]
        mapped = draw(st.lists(st.sampled_from(free), unique=True)) if free else []
        self.index_map = draw(st.permutations(mapped))
        # The batch shape: batching dimensions, in any order, between others.
        extra = [draw(st.integers(0, 3)) for _ in range(draw(st.integers(0, 2)))]
        tagged = draw(
            st.permutations([(self.full[d], d) for d in self.batching] + [(n, None) for n in extra])
        )
        self.batch = [n for n, _ in tagged]
        at = {d: k for k, (_, d) in enumerate(tagged) if d is not None}
        self.vector_dim = draw(st.integers(0, len(self.batch)))
        hidden = len(self.index_map) == 1 and draw(st.booleans())
        if hidden:
            self.vector_dim = len(self.batch)
        self.indices_dims = list(self.batch)
        if not hidden:
            self.indices_dims.insert(self.vector_dim, len(self.index_map))
        self.hidden = hidden
        self.indices_batching = [
            at[d] if hidden or at[d] < self.vector_dim else at[d] + 1 for d in self.batching
        ]
        window_count, total = len(self.window), len(self.window) + len(self.batch)
        self.offset = sorted(draw(st.permutations(range(total)))[:window_count])

    def vector(self, indices, at):
        """The index vector of one batch position."""
        if self.hidden:
            return [int(indices[at])]
        before, after = at[: self.vector_dim], at[self.vector_dim :]
        return [int(indices[(*before, k, *after)]) for k in range(len(self.index_map))]

    def start(self, indices, at):
        start = [0] * len(self.full)
        for d, value in zip(self.index_map, self.vector(indices, at)):
            start[d] = value
        for d, b in zip(self.batching, self.indices_batching):
            start[d] = at[b if self.hidden or b < self.vector_dim else b - 1]
        return start

    def result_dims(self):
        window = iter([self.slices[d] for d in self.window])
        batch = iter(self.batch)
        total = len(self.window) + len(self.batch)
        return [next(window) if k in self.offset else next(batch) for k in range(total)]

    def split(self, at):
        """A position of result or updates as (batch position, position in the window)."""
        batch = tuple(n for k, n in enumerate(at) if k not in self.offset)
        inside = [0] * len(self.full)
        for d, k in zip(self.window, self.offset):
            inside[d] = at[k]
        return batch, inside


INDEX_TYPES = ["s8", "u8", "s16", "s32", "u32", "s64", "u64", "s4", "u2"]


@settings(max_examples=250)
@given(st.data())
def test_gather(data):
    n = Numbers(data)
    index_type = data.draw(st.sampled_from(INDEX_TYPES))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = np.arange(np.prod(n.full), dtype=np.int32).reshape(n.full)
    low = 0 if index_type[0] == "u" else -2
    indices = rng.integers(low, 4 if index_type == "u2" else 6, n.indices_dims)
    indices = indices.astype(dtype(index_type).numpy)
    dims = n.result_dims()
    text = f"""ENTRY e {{
      x = s32[{sizes(n.full)}] parameter(0)
      i = {index_type}[{sizes(n.indices_dims)}] parameter(1)
      ROOT r = s32[{sizes(dims)}] gather(x, i), offset_dims={{{sizes(n.offset)}}},
        collapsed_slice_dims={{{sizes(n.collapsed)}}},
        start_index_map={{{sizes(n.index_map)}}},
        operand_batching_dims={{{sizes(n.batching)}}},
        start_indices_batching_dims={{{sizes(n.indices_batching)}}},
        index_vector_dim={n.vector_dim}, slice_sizes={{{sizes(n.slices)}}} }}"""
    (found,) = arrays(text, x, indices)
    expected = np.zeros(dims, np.int32)
    for at in np.ndindex(*dims):
        batch, inside = n.split(at)
        start = n.start(indices, batch)
        clamped = [min(max(s, 0), f - z) for s, f, z in zip(start, n.full, n.slices)]
        expected[at] = x[tuple(s + k for s, k in zip(clamped, inside))]
    np.testing.assert_array_equal(found, expected)


COMBINERS = {
    "add(a, b)": lambda a, b: a + b,
    "maximum(b, a)": max,
    "copy(b)": lambda a, b: b,
    "copy(a)": lambda a, b: a,
    "subtract(b, a)": lambda a, b: b - a,
}


@settings(max_examples=250)
@given(st.data())
def test_scatter(data):
    n = Numbers(data)
    expression = data.draw(st.sampled_from([*COMBINERS, "b"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.integers(-99, 99, n.full).astype(np.int32)
    indices = rng.integers(-1, 5, n.indices_dims).astype(np.int32)
    dims = n.result_dims()
    updates = rng.integers(-99, 99, dims).astype(np.int32)
    body = (
        "ROOT b = s32[] parameter(1)"
        if expression == "b"
        else (f"b = s32[] parameter(1)\nROOT r = s32[] {expression}")
    )
    text = f"""f {{
      a = s32[] parameter(0)
      {body} }}
    ENTRY e {{
      x = s32[{sizes(n.full)}] parameter(0)
      i = s32[{sizes(n.indices_dims)}] parameter(1)
      u = s32[{sizes(dims)}] parameter(2)
      ROOT r = s32[{sizes(n.full)}] scatter(x, i, u), update_window_dims={{{sizes(n.offset)}}},
        inserted_window_dims={{{sizes(n.collapsed)}}},
        scatter_dims_to_operand_dims={{{sizes(n.index_map)}}},
        input_batching_dims={{{sizes(n.batching)}}},
        scatter_indices_batching_dims={{{sizes(n.indices_batching)}}},
        index_vector_dim={n.vector_dim}, to_apply=f }}"""
    (found,) = arrays(text, x, indices, updates)
    combine = COMBINERS.get(expression, lambda a, b: b)
    expected = x.astype(np.int64)
    # Batch positions outside, window positions inside: the order updates are applied in.
    for at in sorted(np.ndindex(*dims), key=n.split):
        batch, inside = n.split(at)
        start = n.start(indices, batch)
        if all(0 <= s <= f - z for s, f, z in zip(start, n.full, n.slices)):
            place = tuple(s + k for s, k in zip(start, inside))
            expected[place] = combine(expected[place], int(updates[at]))
    np.testing.assert_array_equal(found, expected.astype(np.int32))


def test_scatter_of_pairs_goes_in_order():
    text = """f {
      a = s32[] parameter(0)
      b = f32[] parameter(1)
      c = s32[] parameter(2)
      d = f32[] parameter(3)
      two = s32[] constant(2)
      m = s32[] multiply(a, two)
      x = s32[] add(m, c)
      y = f32[] subtract(d, b)
      ROOT r = (s32[], f32[]) tuple(x, y) }
    ENTRY e {
      p = s32[4] parameter(0)
      q = f32[4] parameter(1)
      i = s32[5,1] parameter(2)
      u = s32[5] parameter(3)
      v = f32[5] parameter(4)
      ROOT r = (s32[4], f32[4]) scatter(p, q, i, u, v), update_window_dims={},
        inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1,
        to_apply=f }"""
    p, q = np.int32([1, 1, 1, 1]), np.float32([0, 0, 0, 0])
    i = np.int32([[1], [3], [1], [9], [1]])
    u, v = np.int32([1, 2, 3, 4, 5]), np.float32([1, 2, 3, 4, 5])
    x, y = arrays(text, p, q, i, u, v)
    np.testing.assert_array_equal(x, [1, ((1 * 2 + 1) * 2 + 3) * 2 + 5, 1, 4])
    np.testing.assert_array_equal(y, [0, 5 - (3 - 1), 0, 2])


def scatter_into_one(element_type, opcode, count):
    return f"""f {{
      a = {element_type}[] parameter(0)
      b = {element_type}[] parameter(1)
      ROOT r = {element_type}[] {opcode}(a, b) }}
    ENTRY e {{
      x = {element_type}[3] parameter(0)
      i = s32[{count}] parameter(1)
      u = {element_type}[{count}] parameter(2)
      ROOT r = {element_type}[3] scatter(x, i, u), update_window_dims={{}},
        inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1,
        to_apply=f }}"""


@pytest.mark.parametrize("t", ARRAY_TYPES, ids=str)
def test_every_type(t):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, 3).astype(np.float32).astype(t.numpy)
    i = rng.integers(-1, 4, 7).astype(np.int32)
    u = rng.integers(0, 2, 7).astype(np.float32).astype(t.numpy)
    gather = f"""ENTRY e {{
      x = {t}[3] parameter(0)
      i = s32[7] parameter(1)
      ROOT r = {t}[7] gather(x, i), offset_dims={{}}, collapsed_slice_dims={{0}},
        start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}} }}"""
    (found,) = arrays(gather, x, i)
    assert found.dtype == t.numpy
    assert found.tobytes() == x[np.clip(i, 0, 2)].tobytes()
    (found,) = arrays(scatter_into_one(t, "multiply", 7), x, i, u)
    expected = x.copy()
    for place, value in zip(i, u):
        if 0 <= place < 3:
            expected[place] = expected[place] * value
    assert found.dtype == t.numpy
    assert found.tobytes() == expected.tobytes()


def test_narrow_sums_round_once():
    """1 + 1 + ... would stop at 256, if bf16 rounded each sum."""
    import ml_dtypes

    one = np.ones(1000, ml_dtypes.bfloat16)
    text = scatter_into_one("bf16", "add", 1000)
    (found,) = arrays(text, one[:3] * 0, np.zeros(1000, np.int32), one)
    assert found.tolist() == [1000, 0, 0]


def test_a_million_updates_take_no_minutes():
    count = 1_000_000
    rng = np.random.default_rng(0)
    i = rng.integers(0, 3, count).astype(np.int32)
    u = rng.integers(-9, 9, count).astype(np.int32)
    with at_most(10):
        (found,) = arrays(scatter_into_one("s32", "add", count), np.zeros(3, np.int32), i, u)
    assert found.tolist() == np.bincount(i, u, 3).astype(int).tolist()
