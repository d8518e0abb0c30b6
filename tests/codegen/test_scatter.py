"""Scatters whose windows overlap: every update counts, whatever the number of threads."""

from __future__ import annotations

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
