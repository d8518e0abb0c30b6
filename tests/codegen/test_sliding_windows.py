"""Long windows are folded by blocks: on either side of the length from which on they are, of every
kind of edge and along every dimension; sums over broadcasts are read by vectors."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.interp import evaluate
from hloom.passes.expand.sliding_window_rewriter import LEAST_PLACES, LONG

FOLDS = {"add": "0", "multiply": "1", "maximum": "-inf", "minimum": "inf"}


def windowed(kind: str, given: str, result: str, window: str) -> hloom.Module:
    return hloom.parse(f"""
f {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] {kind}(a, b) }}
ENTRY e {{
  x = f32[{given}] parameter(0)
  z = f32[] constant({FOLDS.get(kind, "0")})
  ROOT r = f32[{result}] reduce-window(x, z), window={{{window}}}, to_apply=f
}}""")


def agrees(module: hloom.Module, x: np.ndarray) -> None:
    want = np.asarray(evaluate(module, x).array)
    np.testing.assert_allclose(np.asarray(hloom.compile(module)(x)), want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("size", [LONG - 1, LONG, LONG + 1, 31])
@pytest.mark.parametrize("kind", ["add", "maximum"])
@pytest.mark.parametrize("length", [32, 257])
def test_lengths_and_edges(size: int, kind: str, length: int) -> None:
    x = np.random.default_rng(size).standard_normal(length).astype(np.float32)
    x[length // 2] = np.nan if kind == "maximum" else 3
    for low, high in ((0, 0), (size - 1, 0), (2, size + 5), (-1, -1)):
        got = length + low + high - size + 1
        if got > 0:
            text = f"size={size} pad={low}_{high}"
            agrees(windowed(kind, str(length), str(got), text), x)


@pytest.mark.parametrize("window", ["13x1x1", "1x15x1", "1x1x14", "2x13x12", "13x14x15"])
def test_every_dimension(window: str) -> None:
    sizes = [int(n) for n in window.split("x")]
    dims = (17, 19, 18)
    result = ",".join(str(n - s + 1) for n, s in zip(dims, sizes))
    x = np.random.default_rng(0).random(dims, np.float32) + np.float32(0.1)
    for kind in FOLDS:
        agrees(windowed(kind, "17,19,18", result, f"size={window}"), x)


@pytest.mark.parametrize("dims", [(512, 4096), (2048, 1000), (1030, 1025), (4096, 96)])
def test_sums_of_products_of_rows_and_columns(dims: tuple[int, int]) -> None:
    m, n = dims
    module = hloom.parse(f"""
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}
ENTRY e {{
  x = f32[{m}] parameter(0)
  y = f32[{n}] parameter(1)
  z = f32[] constant(0)
  p = f32[{m},{n}] broadcast(x), dimensions={{0}}
  q = f32[{m},{n}] broadcast(y), dimensions={{1}}
  xy = f32[{m},{n}] multiply(p, q)
  ROOT r = f32[] reduce(xy, z), dimensions={{0,1}}, to_apply=add
}}""")
    rng = np.random.default_rng(0)
    x, y = rng.random(m, np.float32), rng.random(n, np.float32)
    exe = hloom.compile(module)
    want = x.astype(np.float64).sum() * y.astype(np.float64).sum()
    np.testing.assert_allclose(np.asarray(exe(x, y)), want, rtol=1e-6)
    if n % 64 == 0 and m * n >= 1 << 21:
        assert "gather" not in exe.as_text("kernels")


@pytest.mark.parametrize("kind", ["add", "subtract"])
@pytest.mark.parametrize("edges", [(1, 0), (0, 3), (4, 0), (-2, 5), (0, 0), (6, -1)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("places", [LEAST_PLACES - 1, LEAST_PLACES, 70])
def test_windows_that_reach_an_end_are_one_cumulative_fold(
    kind: str, edges: tuple[int, int], reverse: bool, places: int
) -> None:
    n = 70
    size = n + max(0, edges[0]) + max(0, edges[1])
    low, high = size - 1 + edges[0], edges[1]
    high -= n + low + high - size + 1 - places
    sides = (high, low) if reverse else (low, high)
    module = windowed(kind, f"3,{n}", f"3,{places}", f"size=1x{size} pad=0_0x{sides[0]}_{sides[1]}")
    agrees(module, np.random.default_rng(n).standard_normal((3, n)).astype(np.float32))


@pytest.mark.parametrize("dims", [(300, 5), (5, 300), (1, 5000)])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_cumulative_sum_of_what_was_padded_folds_each_element_once(
    dims: tuple[int, int], axis: int
) -> None:
    """As `cumsum(pad(x))` is written: that the padding is zero is known late."""
    n = dims[axis] + 1
    padded, ones = list(dims), [1, 1]
    padded[axis], ones[axis] = n, n
    by_axis = ["0_0", "0_0"]
    by_axis[axis] = "1_0"
    low = list(by_axis)
    low[axis] = f"{n - 1}_0"
    module = hloom.parse(f"""
f {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}
ENTRY e {{
  x = f32[{dims[0]},{dims[1]}] parameter(0)
  i = s32[] constant(0)
  v = f32[] convert(i)
  p = f32[{padded[0]},{padded[1]}] pad(x, v), padding={"x".join(by_axis)}
  z = f32[] constant(0)
  ROOT r = f32[{padded[0]},{padded[1]}] reduce-window(p, z), to_apply=f,
    window={{size={ones[0]}x{ones[1]} pad={"x".join(low)}}}
}}""")
    x = np.random.default_rng(0).standard_normal(dims).astype(np.float32)
    agrees(module, x)
    size = f"size={ones[0] - (axis == 0)}x{ones[1] - (axis == 1)}"
    assert dims[axis] < LONG or size in hloom.compile(module).as_text("hlo")
