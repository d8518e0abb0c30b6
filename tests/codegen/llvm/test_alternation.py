"""Loops that take turns between two places compute what they did, however many steps there are."""

from dataclasses import replace

import numpy as np
import pytest

import hloom
from hloom.codegen.llvm.alternation import alternation, exchanged
from hloom.program.slice import Allocation, BufferSlice
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.thunk import walk
from hloom.program.thunks.while_ import While

TURNED = """
HloModule turned
body {{
  s = (s32[], f32[64,1031], f32[64,1031]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  u = f32[64,1031] get-tuple-element(s), index=1
  v = f32[64,1031] get-tuple-element(s), index=2
  a = f32[64,1] slice(u), slice={{[0:64], [0:1]}}
  b = f32[64,1030] slice(u), slice={{[0:64], [1:1031]}}
  t = f32[64,1031] concatenate(b, a), dimensions={{1}}
  c = f32[1,1031] slice(v), slice={{[0:1], [0:1031]}}
  d = f32[63,1031] slice(v), slice={{[1:64], [0:1031]}}
  w = f32[64,1031] concatenate(d, c), dimensions={{0}}
  x = f32[64,1031] add(t, w)
  h = f32[] constant(0.5)
  hs = f32[64,1031] broadcast(h), dimensions={{}}
  y = f32[64,1031] multiply(x, hs)
  ROOT r = (s32[], f32[64,1031], f32[64,1031]) tuple(j, y, t)
}}
cond {{
  s = (s32[], f32[64,1031], f32[64,1031]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({steps})
  ROOT l = pred[] compare(i, n), direction=LT
}}
ENTRY turned {{
  u = f32[64,1031] parameter(0)
  v = f32[64,1031] parameter(1)
  z = s32[] constant(0)
  init = (s32[], f32[64,1031], f32[64,1031]) tuple(z, u, v)
  r = (s32[], f32[64,1031], f32[64,1031]) while(init), condition=cond, body=body
  k = f32[64,1031] get-tuple-element(r), index=1
  l = f32[64,1031] get-tuple-element(r), index=2
  ROOT o = (f32[64,1031], f32[64,1031]) tuple(k, l)
}}
"""


@pytest.mark.parametrize("steps", [4, 7])
def test_steps_in_turn_compute_the_same(steps):
    executable = hloom.compile(hloom.parse(TURNED.format(steps=steps)))
    loops = [t for t in walk(executable.stages.program.thunks) if isinstance(t, While)]
    assert [alternation(t) is not None for t in loops] == [True]
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((2, 64, 1031), np.float32)
    results = executable(u, v)
    for _ in range(steps):
        t = np.roll(u, -1, 1)
        u, v = (t + np.roll(v, -1, 0)) * np.float32(0.5), t
    np.testing.assert_array_equal(results[0], u)
    np.testing.assert_array_equal(results[1], v)


TWICE = TURNED.replace("tuple(j, y, t)", "tuple(j, t, t)").replace("tuple(k, l)", "tuple(l, k)")


@pytest.mark.parametrize("steps", [4, 5, 8])
@pytest.mark.parametrize("text", [TWICE, TWICE.replace("tuple(l, k)", "tuple(k, l)")])
def test_what_is_carried_twice_ends_as_the_same(text, steps):
    """The place of the result is a part of the state, too: its copy is no exchange."""
    executable = hloom.compile(hloom.parse(text.format(steps=steps)))
    u, v = np.random.default_rng(0).standard_normal((2, 64, 1031), np.float32)
    results = executable(u, v)
    for result in results:
        np.testing.assert_array_equal(result, np.roll(u, -steps, 1))


MEMORY = Allocation(0, 1 << 16, "temp")


def place(offset: int, size: int = 1024) -> BufferSlice:
    return BufferSlice(MEMORY, offset, size)


def loop(*uses: tuple[BufferSlice, bool], behind: tuple[BufferSlice, ...] = ()) -> While:
    """A loop whose step is a kernel of these uses, a copy of the first KiB to the second, and a
    kernel that reads what is `behind`."""
    first = Kernel("step", "k", tuple([s for s, _ in uses]), tuple([w for _, w in uses]), 1, 1.0)
    last = Kernel("last", "k", behind, (False,) * len(behind), 1, 1.0)
    copy = Copy("copy", place(0), place(1024))
    return While("loop", (), place(4096, 1), (first, copy, last), 9)


def test_places_are_exchanged_only_as_wholes():
    reads, writes = (place(1024), False), (place(0), True)
    assert alternation(loop(reads, writes)) is not None
    assert alternation(loop((place(1024, 512), False), (place(512, 512), True))) is not None
    beside = (place(1024 + 512, 1024), False)
    assert alternation(loop(reads, writes, beside)) is None
    across = (place(512, 1024), True)
    assert alternation(loop(reads, across)) is None
    assert alternation(loop(reads, writes, behind=(place(1024),))) is None


def test_places_of_the_state_are_not_exchanged_with_others_of_it():
    turns = loop((place(1024), False), (place(0), True))
    assert alternation(replace(turns, carried=(place(1024),))) is not None
    assert alternation(replace(turns, carried=(place(1024), place(0)))) is None


def test_an_exchanged_slice_keeps_its_distance():
    pair = (place(0), place(2048))
    assert exchanged(place(128, 64), [pair]) == place(2176, 64)
    assert exchanged(place(2048), [pair]) == place(0)
    assert exchanged(place(1024), [pair]) == place(1024)
