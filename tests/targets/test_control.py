"""Asynchronous operations, calls and control flow over tokens in native programs."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.compiler import compile_module

X = np.array([0.5, -1.25, 3], np.float32)
ASYNC = """par { p = f32[3] parameter(0)
  ROOT r = f32[3] negate(p) }, execution_thread="parallel"
ENTRY e { x = f32[3] parameter(0)
  a = ((f32[3]), f32[3], s32[]) async-start(x), async_execution_thread="parallel", calls=par
  b = ((f32[3]), f32[3], s32[]) async-start(x), async_execution_thread="parallel", calls=par
  u = ((f32[3]), f32[3], s32[]) async-update(b)
  c = f32[3] async-done(a)
  d = f32[3] async-done(u)
  s = (f32[3], f32[3], u32[]) copy-start(x)
  k = f32[3] copy-done(s)
  m = f32[3] multiply(c, d)
  ROOT r = f32[3] add(m, k) }"""
CALLS = """f { p = f32[3] parameter(0)
  ROOT r = f32[3] negate(p) }
ENTRY e { x = f32[3] parameter(0)
  a = f32[3] call(x), to_apply=f, frontend_attributes={inlineable="false"}
  y = f32[3] add(a, a)
  b = f32[3] call(y), to_apply=f, frontend_attributes={inlineable="false"}
  ROOT r = f32[3] add(x, b) }"""
BRANCHES = """t { p = (token[], f32[3]) parameter(0)
  k = token[] get-tuple-element(p), index=0
  x = f32[3] get-tuple-element(p), index=1
  y = f32[3] negate(x)
  ROOT r = (token[], f32[3]) tuple(k, y) }
f { p = (token[], f32[3]) parameter(0)
  k = token[] get-tuple-element(p), index=0
  x = f32[3] get-tuple-element(p), index=1
  y = f32[3] add(x, x)
  l = token[] after-all(k)
  ROOT r = (token[], f32[3]) tuple(l, y) }
ENTRY e { x = f32[3] parameter(0)
  c = pred[] parameter(1)
  k = token[] after-all()
  p = (token[], f32[3]) tuple(k, x)
  q = (token[], f32[3]) conditional(c, p, p), true_computation=t, false_computation=f
  ROOT r = f32[3] get-tuple-element(q), index=1 }"""
LOOP = """b { p = (token[], s32[]) parameter(0)
  k = token[] get-tuple-element(p), index=0
  x = s32[] get-tuple-element(p), index=1
  y = s32[] add(x, x)
  l = token[] after-all(k)
  ROOT r = (token[], s32[]) tuple(l, y) }
c { p = (token[], s32[]) parameter(0)
  x = s32[] get-tuple-element(p), index=1
  o = s32[] constant(100)
  ROOT r = pred[] compare(x, o), direction=LT }
ENTRY e { x = s32[] parameter(0)
  k = token[] after-all()
  p = (token[], s32[]) tuple(k, x)
  ROOT q = (token[], s32[]) while(p), condition=c, body=b }"""


def run(text: str, *arguments: np.ndarray | np.generic):
    return compile_module(hloom.parse(f"HloModule m\n{text}"), cached=False)(*arguments)


def test_operations_in_two_halves_are_done_at_once():
    np.testing.assert_array_equal(run(ASYNC, X), X * X + X)


def test_calls_that_are_not_inlined_run_where_they_stand():
    np.testing.assert_array_equal(run(CALLS, X), X + 2 * X)


@pytest.mark.parametrize("chosen", [True, False])
def test_branches_may_carry_tokens(chosen: bool):
    np.testing.assert_array_equal(run(BRANCHES, X, np.bool_(chosen)), -X if chosen else X + X)


def test_loops_may_carry_tokens():
    token, number = run(LOOP, np.int32(7))
    assert token is None
    assert int(np.asarray(number)) == 112
