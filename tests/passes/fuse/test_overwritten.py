"""Loops whose arrays need a row and a column of themselves: those are read before, and the arrays
overwritten in place."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hloom


def paths(n: int, others: str = "") -> str:
    """Shortest paths: the least of an element and what a row and a column add up to."""
    whole = f"f32[{n},{n}]"
    last = "m" if not others else "o"
    return f"""
cond {{ p = (s32[], {whole}) parameter(0)  k = s32[] get-tuple-element(p), index=0
  n = s32[] constant({n})  ROOT r = pred[] compare(k, n), direction=LT }}
body {{ p = (s32[], {whole}) parameter(0)  k = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)  next = s32[] add(k, one)  z = s32[] constant(0)
  x = {whole} get-tuple-element(p), index=1
  c = f32[{n},1] dynamic-slice(x, z, k), dynamic_slice_sizes={{{n},1}}
  cr = f32[{n}] reshape(c)  cb = {whole} broadcast(cr), dimensions={{0}}
  r = f32[1,{n}] dynamic-slice(x, k, z), dynamic_slice_sizes={{1,{n}}}
  rr = f32[{n}] reshape(r)  rb = {whole} broadcast(rr), dimensions={{1}}
  s = {whole} add(cb, rb)  m = {whole} minimum(x, s)
  {others}
  ROOT t = (s32[], {whole}) tuple(next, {last}) }}
ENTRY e {{ x = {whole} parameter(0)  k = s32[] constant(0)  i = (s32[], {whole}) tuple(k, x)
  w = (s32[], {whole}) while(i), condition=cond, body=body
  ROOT r = {whole} get-tuple-element(w), index=1 }}"""


def body_of(exe: hloom.Executable) -> str:
    return exe.as_text("hlo").partition("%body")[2].partition("\n}")[0]


@pytest.mark.parametrize("others", ["", "o = f32[90,90] dynamic-update-slice(m, r, k, z)"])
def test_an_array_is_overwritten_where_it_is_read(others: str):
    n = 90
    exe = hloom.compile(paths(n, others))
    x = np.random.default_rng(0).random((n, n), np.float32)
    want = x
    for k in range(n):
        row = want[k]
        want = np.minimum(want, want[:, k, None] + row)
        if others:
            want[k] = row
    np.testing.assert_array_equal(np.asarray(exe(x)), want)
    assert not re.search(rf"f32\[{n},{n}\]\S* copy", body_of(exe))


def test_parts_are_read_in_the_kernel_where_the_array_is_moved_too():
    """A roll reads all of the array elsewhere: it is not overwritten in place anyway."""
    moved = "a = f32[89,90] slice(x), slice={[1:90], [0:90]}  o = f32[90,90] concatenate(a, r), "
    body = body_of(hloom.compile(paths(90, moved + "dimensions={0}")))
    assert "dynamic-slice" not in body
