"""Folds over arrays of run-time size begin once with what they begin with, whatever it is."""

import numpy as np
import pytest

import hloom


def folded(opcode: str, fold: str, result: str, dtype: str = "f32") -> str:
    return f"""HloModule m
    f {{ a = {dtype}[] parameter(0)
      b = {dtype}[] parameter(1)
      ROOT c = {dtype}[] {opcode}(a, b) }}
    ENTRY e {{ x = {dtype}[8] parameter(0)
      size = s32[] parameter(1)
      start = {dtype}[] parameter(2)
      some = {dtype}[<=8] set-dimension-size(x, size), dimensions={{0}}
      ROOT r = {result} {fold}, to_apply=f }}"""


KINDS = {"f32": np.float32, "s32": np.int32, "u8": np.uint8, "c64": np.complex64}
FOLDS = {"add": np.sum, "multiply": np.prod, "maximum": np.max}


@pytest.mark.parametrize("size", [0, 1, 3, 8])
@pytest.mark.parametrize(
    ("opcode", "dtype"),
    [(o, d) for o in FOLDS for d in KINDS if (o, d) != ("maximum", "c64")],
)
def test_a_start_that_changes_the_result(opcode, dtype, size):
    text = folded(opcode, "reduce(some, start), dimensions={0}", f"{dtype}[]", dtype)
    kind, of = KINDS[dtype], FOLDS[opcode]
    x, start = np.arange(1, 9).astype(kind), kind(3)
    found = np.asarray(hloom.compile(text)(x, np.int32(size), start))
    assert found == np.asarray(of(np.append(x[:size], start))).astype(kind)


@pytest.mark.parametrize("size", [1, 3, 8])
def test_a_start_that_windows_begin_with(size):
    fold = "reduce-window(some, start), window={size=3 pad=2_0}"
    text = folded("add", fold, "f32[<=8]")
    x = np.arange(1, 9).astype(np.float32)
    found = np.asarray(hloom.compile(text)(x, np.int32(size), np.float32(3)))
    expected = [x[max(0, k - 2) : k + 1].sum() + 3 for k in range(size)]
    np.testing.assert_array_equal(found, expected)
