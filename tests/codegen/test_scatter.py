"""Scatters whose windows overlap: every update counts, whatever the number of threads."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import hloom

# Windows of two dimensions at places that one or two indices choose.
SCATTER = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[ROWS,COLUMNS] parameter(0)
  at = s32[N,2] parameter(1)
  u = f32[N,H,W] parameter(2)
  ROOT r = f32[ROWS,COLUMNS] scatter(x, at, u), to_apply=add, update_window_dims={1,2},
    inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1
}
"""


@pytest.mark.parametrize(
    ("rows", "columns", "height", "width"),
    [(96, 80, 64, 48), (96, 80, 64, 80), (96, 80, 96, 33), (96, 1, 64, 1), (7, 9, 1, 5)],
)
def test_overlapping_windows(rows: int, columns: int, height: int, width: int) -> None:
    count = 60
    text = SCATTER
    for word, n in (("ROWS", rows), ("COLUMNS", columns), ("N", count), ("H", height)):
        text = text.replace(word, str(n)) if len(word) > 1 else text
    text = text.replace("[N,", f"[{count},").replace(",H,W]", f",{height},{width}]")
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, (rows, columns)).astype(np.float32)
    u = rng.integers(0, 9, (count, height, width)).astype(np.float32)
    at = np.stack(
        [rng.integers(-1, rows - height + 2, count), rng.integers(0, columns - width + 1, count)],
        axis=1,
    ).astype(np.int32)
    wanted = x.copy()
    for (r, c), part in zip(at, u):
        if 0 <= r <= rows - height and 0 <= c <= columns - width:
            wanted[r : r + height, c : c + width] += part
    run = hloom.compile(hloom.parse(text), threads=4)
    for _ in range(20):
        assert np.array_equal(np.asarray(run(x, at, u)), wanted)


# The gradient of a pool of the largest, channels last.
POOL = """HloModule m
ge {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GE }}
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
ENTRY e {{
  x = f32[2,{n},{n},{c}] parameter(0)
  s = f32[2,{m},{m},{c}] parameter(1)
  z = f32[] constant(0)
  ROOT r = f32[2,{n},{n},{c}] select-and-scatter(x, s, z), select=ge, scatter=add,
    window={{size=1x{k}x{k}x1 stride=1x{by}x{by}x1 pad=0_0x{low}_{high}x{low}_{high}x0_0}}
}}
"""


@pytest.mark.parametrize("c", [1, 3, 20, 64])
@pytest.mark.parametrize(
    ("n", "k", "by", "low", "high"),
    [(13, 3, 2, 1, 1), (12, 3, 2, 0, 1), (8, 2, 2, 0, 0), (8, 2, 1, 0, 1), (9, 2, 2, 1, 0)],
)
def test_gradients_of_pools(n: int, k: int, by: int, low: int, high: int, c: int) -> None:
    m = (n + low + high - k) // by + 1
    module = hloom.parse(POOL.format(n=n, m=m, c=c, k=k, by=by, low=low, high=high))
    rng = np.random.default_rng(n)
    x, s = (rng.integers(-3, 4, (2, d, d, c)).astype(np.float32) for d in (n, m))
    wanted = hloom.evaluate(module, x, s).array
    for threads in (1, 2):
        assert np.array_equal(np.asarray(hloom.compile(module, threads=threads)(x, s)), wanted)


# Batches of scatters share dimensions of operand, indices and updates, in any place.
BATCHED = """HloModule m
f {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT r = {t}[] {kind}(a, b) }}
ENTRY e {{
  x = {t}[{b},{n},{w}] parameter(0)
  at = s32[{u},{b}] parameter(1)
  y = {t}[{u},{b},{w}] parameter(2)
  ROOT r = {t}[{b},{n},{w}] scatter(x, at, y), to_apply=f, update_window_dims={{2}},
    inserted_window_dims={{1}}, input_batching_dims={{0}}, scatter_indices_batching_dims={{1}},
    scatter_dims_to_operand_dims={{1}}, index_vector_dim=2
}}
"""
FOLDS = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


@pytest.mark.parametrize("kind", FOLDS)
@pytest.mark.parametrize(
    ("batch", "places", "width", "count"),
    [(3, 5, 1, 400), (1, 7, 1, 1000), (4, 1, 1, 65), (2, 9, 33, 40), (5, 700, 2, 33), (3, 4, 0, 5)],
)
def test_batches_of_scatters(kind: str, batch: int, places: int, width: int, count: int) -> None:
    text = BATCHED.format(t="f32", kind=kind, b=batch, n=places, w=width, u=count)
    rng = np.random.default_rng(places)
    x, y = (
        rng.choice(np.array([1, -1, 2, 0.5], np.float32), (batch, places, width)),
        rng.choice(np.array([1, -1], np.float32), (count, batch, width)),
    )
    at = rng.integers(-1, places + 1, (count, batch)).astype(np.int32)
    wanted = x.copy()
    for k in range(count):
        for b in range(batch):
            if 0 <= at[k, b] < places:
                wanted[b, at[k, b]] = FOLDS[kind](wanted[b, at[k, b]], y[k, b])
    for threads in (1, 3):
        run = hloom.compile(hloom.parse(text), threads=threads)
        assert np.array_equal(np.asarray(run(x, at, y)), wanted)


@pytest.mark.parametrize("kind", ["maximum", "minimum"])
@pytest.mark.parametrize("places", [1, 3, 40, 9000])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "s32", "u8"])
def test_extremes_of_equal_neighbours(kind: str, places: int, dtype: str) -> None:
    """NaN comes through, and zeros of both signs have an order; sorted indices and others."""
    text = f"""HloModule m
f {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) ROOT r = {dtype}[] {kind}(a, b) }}
ENTRY e {{ x = {dtype}[{places}] parameter(0) at = s32[1003,1] parameter(1)
  y = {dtype}[1003] parameter(2)
  ROOT r = {dtype}[{places}] scatter(x, at, y), to_apply=f, update_window_dims={{}},
    inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1 }}
"""
    module = hloom.parse(text)
    rng = np.random.default_rng(places)
    of = {"f32": np.float32, "f64": np.float64, "s32": np.int32, "u8": np.uint8}.get(dtype)
    of = ml_dtypes.bfloat16 if of is None else of
    numbers = [0.0, 1, 2, 100] if of in (np.int32, np.uint8) else [0.0, -0.0, 1.5, -2, np.nan]
    x, y = rng.choice(numbers, places).astype(of), rng.choice(numbers, 1003).astype(of)
    for at in (rng.integers(0, places, (1003, 1)), np.arange(1003)[:, None] * places // 1003):
        arguments = (x, at.astype(np.int32), y)
        ours = np.asarray(hloom.compile(module)(*arguments))
        wanted = np.asarray(hloom.evaluate(module, *arguments).array)
        assert np.array_equal(ours, wanted, equal_nan=of not in (np.int32, np.uint8))
        assert np.array_equal(np.signbit(ours.astype(float)), np.signbit(wanted.astype(float)))
