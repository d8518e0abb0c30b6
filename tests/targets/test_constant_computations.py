"""Folds, scatters and sorts by computations that look at none of what they are given."""

from __future__ import annotations

import numpy as np
import pytest

import hloom

ONE = "f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] constant(1) }\n"
TWO = """f { a = f32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2)
  d = s32[] parameter(3) p = f32[] constant(1) q = s32[] copy(d)
  ROOT t = (f32[], s32[]) tuple(p, q) }
"""
LESS = "g { a = f32[] parameter(0) b = f32[] parameter(1) ROOT p = pred[] constant(false) }\n"


def check(text: str) -> None:
    module = hloom.parse("HloModule m\n" + text)
    arguments = hloom.random_arguments(module)
    expected = hloom.evaluate(module, *arguments).leaves()
    results = hloom.compile(module, threads=2)(*arguments)
    results = results if isinstance(results, tuple | list) else [results]
    for result, want in zip(results, expected, strict=True):
        np.testing.assert_allclose(np.asarray(result), want.array)


@pytest.mark.parametrize(
    ("shape", "result", "dimensions"),
    [
        ("[1,63,4]{0,1,2}", "[1,4]", "1"),
        ("[5000]", "[]", "0"),
        ("[300,5,7]", "[5]", "0,2"),
        ("[300,5,7]", "[300,7]", "1"),
        ("[2048,3]", "[3]", "0"),
        ("[64,1000]", "[64]", "1"),
        ("[1,300000]", "[1]", "1"),
    ],
)
def test_a_reduction_to_a_constant(shape, result, dimensions):
    reduce = f"ROOT r = f32{result} reduce(x, z), dimensions={{{dimensions}}}, to_apply=f }}"
    check(ONE + f"ENTRY e {{ x = f32{shape} parameter(0) z = f32[] constant(3) {reduce}")


def test_a_reduction_of_two_of_which_one_is_a_constant():
    check(
        TWO
        + """ENTRY e { x = f32[64,1000] parameter(0) y = s32[64,1000] parameter(1)
  z = f32[] constant(3) w = s32[] constant(4)
  ROOT r = (f32[64], s32[64]) reduce(x, y, z, w), dimensions={1}, to_apply=f }"""
    )


def test_a_window_a_map_a_scatter_of_constants():
    check(
        ONE
        + """ENTRY e { x = f32[9,70] parameter(0) z = f32[] constant(3)
  i = s32[30,1] parameter(1) u = f32[30,70] parameter(2)
  w = f32[9,35] reduce-window(x, z), window={size=1x2 stride=1x2}, to_apply=f
  m = f32[9,70] map(x, x), dimensions={0,1}, to_apply=f
  s = f32[9,70] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f
  ROOT t = (f32[9,35], f32[9,70], f32[9,70]) tuple(w, m, s) }"""
    )


@pytest.mark.parametrize("shape", ["[100]", "[30,40]", "[5000]", "[4,17,3]"])
def test_a_sort_of_what_is_all_equal(shape):
    sort = f"ROOT r = f32{shape} sort(x), dimensions={{0}}, is_stable=true, to_apply=g }}"
    check(LESS + f"ENTRY e {{ x = f32{shape} parameter(0) {sort}")
