"""Long windows are folded by blocks: on either side of the length from which on they are, of every
kind of edge and along every dimension; sums over broadcasts are read by vectors."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.interp import evaluate
from hloom.passes.expand.sliding_window_rewriter import LONG

FOLDS = {"add": "0", "multiply": "1", "maximum": "-inf", "minimum": "inf"}


def windowed(kind: str, given: str, result: str, window: str) -> hloom.Module:
    return hloom.parse(f"""
f {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] {kind}(a, b) }}
ENTRY e {{
  x = f32[{given}] parameter(0)
  z = f32[] constant({FOLDS[kind]})
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
