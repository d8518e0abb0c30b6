"""The largest of each short row and its place: as many rows side by side as there are lanes."""

import ml_dtypes
import numpy as np
import pytest

import hloom

PROGRAM = """HloModule m
greatest { a = T[] parameter(0)  i = I[] parameter(1)  b = T[] parameter(2)  j = I[] parameter(3)
  above = pred[] compare(a, b), direction=GT
  none = pred[] compare(a, a), direction=NE
  first = pred[] or(above, none)
  same = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction=LT
  tie = pred[] and(same, before)
  which = pred[] or(first, tie)
  c = T[] select(first, a, b)
  k = I[] select(which, i, j)
  ROOT t = (T[], I[]) tuple(c, k) }
ENTRY e { x = T[R,C] parameter(0)
  n = I[R,C] iota(), iota_dimension=1
  least = T[] constant(LEAST)
  zero = I[] constant(0)
  f = (T[R], I[R]) reduce(x, n, least, zero), dimensions={1}, to_apply=greatest
  ROOT index = I[R] get-tuple-element(f), index=1 }"""

TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "s32": np.int32,
    "s8": np.int8,
}


@pytest.mark.parametrize("isa", ["", "AVX2"])
@pytest.mark.parametrize("of, index", [*[(of, "s32") for of in TYPES], ("f32", "s64")])
def test_the_place_of_the_largest_of_each_short_row(of, index, isa):
    rng = np.random.default_rng(3)
    for columns in (2, 8, 9, 15, 16, 31, 32, 63, 64):
        for rows in (7, 8, 100):
            x = rng.integers(-4, 5, (rows, columns)).astype(TYPES[of])  # many are equal
            if not of.startswith("s"):
                x[::3, columns // 2] = np.nan  # of two the reducer would take either
            text = PROGRAM.replace("R,C", f"{rows},{columns}").replace("[R]", f"[{rows}]")
            text = text.replace("T[", of + "[").replace("I[", index + "[")
            text = text.replace("LEAST", "-128" if of.startswith("s") else "-inf")
            options = {"xla_cpu_max_isa": isa} if isa else {}
            wanted = np.argmax(x.astype(np.float64), 1)
            np.testing.assert_array_equal(hloom.compile(text, options=options)(x), wanted)


def test_rows_shorter_than_four_vectors_are_read_side_by_side():
    text = PROGRAM.replace("R,C", "1000,20").replace("[R]", "[1000]").replace("LEAST", "-inf")
    text = text.replace("T[", "f32[").replace("I[", "s32[")
    compiled = hloom.compile(text, options={"xla_cpu_max_isa": "AVX2"})
    assert "strides(20)" in compiled.as_text("kernels")
