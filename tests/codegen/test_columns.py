"""Reductions that keep columns: blocks and ends of every kind, each written once."""

import re

import numpy as np
import pytest

import hloom
from hloom.codegen.column_form import SHARED
from hloom.compiler import compile_module
from tests.codegen.pairs import sum_of_pairs

FOLD = """HloModule m

fold {{
  a = {dtype}[] parameter(0)
  b = {dtype}[] parameter(1)
  ROOT c = {dtype}[] {kind}(a, b)
}}

ENTRY e {{
  x = {dtype}[{rows},{columns}] parameter(0)
  z = {dtype}[] constant({initial})
  r = {dtype}[{columns}] reduce(x, z), dimensions={{0}}, to_apply=fold
  n = {dtype}[{columns}] negate(r)
  ROOT t = ({dtype}[{columns}], {dtype}[{columns}]) tuple(r, n)
}}
"""
BOTH = """HloModule m

fold {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  s = f32[] add(a, b)
  m = s32[] maximum(i, j)
  ROOT c = (f32[], s32[]) tuple(s, m)
}

ENTRY e {
  x = f32[COUNT] parameter(0)
  y = s32[COUNT] parameter(1)
  z = f32[] constant(0)
  o = s32[] constant(-7)
  ROOT r = (f32[KEPT], s32[KEPT]) reduce(x, y, z, o), dimensions={1}, to_apply=fold
}
"""


def ran(text):
    """What native code and the interpreter make of random arguments."""
    module = hloom.parse(text)
    arguments = hloom.random_arguments(module, seed=0)
    exe = compile_module(module, cached=False)
    found = exe(*arguments)
    expected = hloom.evaluate(module, *arguments)
    return (
        exe,
        [np.asarray(x, np.float64) for x in found],
        [np.asarray(x.array, np.float64) for x in expected.leaves()],
    )


@pytest.mark.parametrize("rows", [3, 50, 300])
@pytest.mark.parametrize("columns", [257, 343, 512, 513, 767, 777, 1024, 2047, 2065, 4096, 4111])
def test_sums_of_columns(rows, columns):
    text = FOLD.format(dtype="f32", kind="add", rows=rows, columns=columns, initial=0)
    _, found, expected = ran(text)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * rows)


@pytest.mark.parametrize("columns", [777, 2047, 4111])
@pytest.mark.parametrize(
    ("dtype", "kind", "initial"),
    [("s32", "add", 3), ("f64", "maximum", "-inf"), ("s8", "minimum", 127), ("bf16", "maximum", 0)],
)
def test_exact_folds_of_columns(dtype, kind, initial, columns):
    text = FOLD.format(dtype=dtype, kind=kind, rows=41, columns=columns, initial=initial)
    _, found, expected = ran(text)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("columns", [400, 1025, 3001])
def test_two_folds_in_every_row_of_blocks(columns):
    text = BOTH.replace("COUNT", f"5,70,{columns}").replace("KEPT", f"5,{columns}")
    _, found, expected = ran(text)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("columns", [777, 2781, 4111])
def test_all_blocks_are_one_code(columns):
    """What a last block with an odd end does is not written beside what the others do."""
    text = FOLD.format(dtype="f32", kind="maximum", rows=64, columns=columns, initial="-inf")
    exe, found, expected = ran(text)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    kernels = exe.as_text("kernels").split("kernel @")
    [kernel] = [k for k in kernels if re.search(rf"buffer<f32>\[{64 * columns}\] in", k)]
    widths = re.findall(r"load %in0\[.*: f32\[(\d+)\]", kernel)
    assert set(widths) == {widths[0], str(columns % int(widths[0]))}
    # The whole vectors and the end, each in the rows by several and in those that are left.
    assert len(widths) <= 2 * (8 + 1)


@pytest.mark.parametrize("depth", [16, 37])
@pytest.mark.parametrize(
    ("left", "right"), [(1, 700), (2, 65), (40, 33), (33, 31), (7, 32), (5, 1040), (61, 700)]
)
def test_differences_of_pairs_are_read_in_rows(depth: int, left: int, right: int):
    root = "t = {kept} sqrt(r) ROOT o = ({kept}, {kept}) tuple(t, r)"
    text = sum_of_pairs((depth, left, right), (0, 1), (0, 2), 0, each="multiply(d, d)", root=root)
    exe, found, expected = ran(text)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    if right >= 32 and left > SHARED:
        assert not re.search(r"= gather ", exe.as_text("kernels"))


def test_one_column_of_a_whole_array_with_narrow_vectors():
    """A sum of all elements, where one f64 is half a vector."""
    text = FOLD.format(dtype="f64", kind="add", rows=640, columns=1, initial=0)
    text = text.replace("f64[1]", "f64[]").replace("dimensions={0}", "dimensions={0,1}")
    module = hloom.parse(text)
    x = np.random.default_rng(0).standard_normal((640, 1))
    got = hloom.compile(module, options={"xla_cpu_max_isa": "SSE4_2"})(x)
    np.testing.assert_allclose(np.asarray(got[0]), x.sum(), rtol=1e-12)
