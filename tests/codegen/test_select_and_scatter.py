"""select-and-scatter is asked of places by windows: every shape of window, edge, order, type and
number, on either side of what the expansion leaves alone."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest

import hloom
from hloom.interp import evaluate
from hloom.passes.expand.select_and_scatter_expander import LONG_SUM, MOST_WINDOWS

TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "s8": np.int8,
    "u16": np.uint16,
    "s64": np.int64,
}


def selecting(
    dims: Sequence[int],
    windows: Sequence[tuple[int, int, int, int]],
    of: str = "f32",
    choose: str = "GE",
    join: str = "add",
    initial: str = "0",
) -> hloom.Module | None:
    """Windows are (size, stride, low, high); None where they do not fit."""
    count = [(n + lo + hi - s) // t + 1 for n, (s, t, lo, hi) in zip(dims, windows)]
    if min(n + lo + hi - s for n, (s, _, lo, hi) in zip(dims, windows)) < 0:
        return None
    size, stride = ("x".join(str(w[k]) for w in windows) for k in (0, 1))
    pad = "x".join(f"{w[2]}_{w[3]}" for w in windows)
    whole, given = (f"{of}[{','.join(map(str, n))}]" for n in (dims, count))
    return hloom.parse(f"""
choose {{
  a = {of}[] parameter(0)
  b = {of}[] parameter(1)
  ROOT s = pred[] compare(a, b), direction={choose}
}}
join {{ a = {of}[] parameter(0) b = {of}[] parameter(1) ROOT s = {of}[] {join}(a, b) }}
ENTRY e {{
  x = {whole} parameter(0)
  s = {given} parameter(1)
  z = {of}[] constant({initial})
  ROOT r = {whole} select-and-scatter(x, s, z), select=choose, scatter=join,
    window={{size={size} stride={stride} pad={pad}}}
}}""")


def agrees(module: hloom.Module, seed: int = 0, special: bool = False) -> None:
    rng = np.random.default_rng(seed)
    shapes = [p.shape for p in module.entry.parameters]
    x, s = (rng.integers(0, 5, p.dims).astype(TYPES[p.dtype.name]) for p in shapes)
    if special:
        x.reshape(-1)[:: max(1, x.size // 7)] = np.nan
        x.reshape(-1)[1 :: max(1, x.size // 5)] = -np.inf
    want = np.asarray(evaluate(module, x, s).array)
    np.testing.assert_array_equal(np.asarray(hloom.compile(module)(x, s)), want)


WINDOWS = (
    (2, 2, 0, 0),
    (3, 2, 0, 1),
    (3, 1, 1, 1),
    (2, 3, 0, 0),
    (1, 2, 0, 0),
    (1, 1, 0, 0),
    (3, 2, 2, 4),
    (2, 2, -1, -1),
    (4, 3, -2, 5),
    (1, 2, 3, 2),
    (5, 2, 4, 0),
)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("length", [1, 5, 16, 33, 130])
def test_one_dimension(window: tuple[int, int, int, int], length: int) -> None:
    module = selecting([length], [window])
    if module is not None:
        agrees(module, special=True)
        assert "select-and-scatter" not in hloom.compile(module).as_text("hlo")


@pytest.mark.parametrize("seed", range(24))
def test_drawn_windows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(2, 5))
    dims = [int(n) for n in rng.integers(1, 12, rank)]
    windows = [WINDOWS[int(rng.integers(len(WINDOWS)))] for _ in dims]
    windows[int(rng.integers(rank))] = (1, 1, 0, 0)
    of = list(TYPES)[int(rng.integers(len(TYPES)))]
    choose, join = (
        ("GE", "GT", "LE", "LT", "NE")[seed % 5],
        ("add", "maximum", "subtract")[seed % 3],
    )
    module = selecting(dims, windows, of, choose, join, ("0", "1")[seed % 2])
    if module is not None:
        agrees(module, seed, special=of in ("f32", "f64"))


@pytest.mark.parametrize("of", TYPES)
@pytest.mark.parametrize("window", [(2, 2, 0, 0), (3, 2, 1, 1)])
def test_types(of: str, window: tuple[int, int, int, int]) -> None:
    for dims, windows in (((3, 18, 19, 5), (1, 2)), ((2, 3, 17, 35), (2, 3))):
        chosen = [window if d in windows else (1, 1, 0, 0) for d in range(4)]
        module = selecting(dims, chosen, of)
        assert module is not None
        agrees(module)


@pytest.mark.parametrize("size", [LONG_SUM - 1, LONG_SUM, MOST_WINDOWS, MOST_WINDOWS + 1])
@pytest.mark.parametrize("of", ["f32", "bf16", "s64"])
def test_as_many_windows_as_are_asked_for(size: int, of: str) -> None:
    module = selecting([2, 3 * size], [(1, 1, 0, 0), (size, 1, size - 1, 0)], of)
    assert module is not None
    agrees(module)
    text = hloom.compile(module).as_text("hlo")
    assert "select-and-scatter(" not in text
    assert (" scatter(" in text) == (size > MOST_WINDOWS)


def test_numbers_that_are_lost_in_a_narrow_type() -> None:
    """All windows choose one place: 256 + 1 is 256 in bf16."""
    module = selecting([600], [(64, 1, 0, 0)], "bf16")
    assert module is not None
    x = np.zeros(600, ml_dtypes.bfloat16)
    x[300] = 1
    s = np.full(537, 8, ml_dtypes.bfloat16)
    got = np.asarray(hloom.compile(module)(x, s)).astype(np.float32)
    assert got[300] == 64 * 8
