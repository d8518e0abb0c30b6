"""Rows that are gathered, however short: a tile each, that lies side by side in memory."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.interp import evaluate

TYPES = {"f32": np.float32, "f64": np.float64, "s8": np.int8, "c64": np.complex64}


def gathered(of: str, width: int, after: str = "ROOT r = {s} add(g, g)") -> hloom.Module:
    return hloom.parse(f"""
ENTRY e {{
  x = {of}[50,{width}] parameter(0)
  i = s32[37,1] parameter(1)
  y = {of}[37,{width}] parameter(2)
  g = {of}[37,{width}] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{width}}}
  {after.format(s=f"{of}[37,{width}]")}
}}""")


def agrees(module: hloom.Module, **options: str) -> str:
    rng = np.random.default_rng(3)
    x, _, y = hloom.random_arguments(module, seed=1)
    i = rng.integers(-3, 53, (37, 1), np.int32)  # those outside are clamped
    exe = hloom.compile(module, options=options)
    want = np.asarray(evaluate(module, x, i, y).array)
    np.testing.assert_allclose(np.asarray(exe(x, i, y)), want, rtol=1e-6)
    return exe.as_text("kernels")


@pytest.mark.parametrize("of", TYPES)
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33])
def test_rows_are_read_side_by_side(of: str, width: int) -> None:
    kernels = agrees(gathered(of, width))
    assert width == 1 or "gather %in0" not in kernels


@pytest.mark.parametrize("isa", ["SSE4_2", "AVX2"])
@pytest.mark.parametrize("width", [2, 3, 7, 8, 31])
def test_on_narrower_vectors(isa: str, width: int) -> None:
    assert "gather %in0" not in agrees(gathered("f32", width), xla_cpu_max_isa=isa)


def test_much_work_fills_vectors() -> None:
    """An exponential for two elements takes as long as for a whole vector."""
    long = "a = {s} tanh(g)\n b = {s} tanh(a)\n c = {s} tanh(b)\n ROOT r = {s} multiply(c, y)"
    assert "[2]" not in agrees(gathered("f32", 2, long))
    assert "gather %in0" not in agrees(gathered("f32", 33, long))


def test_elements_that_lie_apart_are_found_one_by_one() -> None:
    module = hloom.parse("""
ENTRY e {
  x = f32[7,50] parameter(0)
  i = s32[37,1] parameter(1)
  y = f32[37,7] parameter(2)
  g = f32[37,7] gather(x, i), offset_dims={1}, collapsed_slice_dims={1},
    start_index_map={1}, index_vector_dim=1, slice_sizes={7,1}
  ROOT r = f32[37,7] add(g, y)
}""")
    agrees(module)
