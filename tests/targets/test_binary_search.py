"""Binary search of many numbers at once, as `jnp.searchsorted` has it: its state stays in place."""

import numpy as np
import pytest

import hloom
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.thunk import walk

SEARCH = """HloModule search
goes_on {{
  p = (s32[], u32[{m}], u32[{m}], f32[{n}], f32[{m}]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  most = s32[] constant({steps})
  ROOT r = pred[] compare(i, most), direction=LT
}}
step {{
  p = (s32[], u32[{m}], u32[{m}], f32[{n}], f32[{m}]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  low = u32[{m}] get-tuple-element(p), index=1
  high = u32[{m}] get-tuple-element(p), index=2
  table = f32[{n}] get-tuple-element(p), index=3
  x = f32[{m}] get-tuple-element(p), index=4
  one = s32[] constant(1)
  next = s32[] add(i, one)
  apart = u32[{m}] subtract(high, low)
  two = u32[] constant(2)
  twos = u32[{m}] broadcast(two), dimensions={{}}
  half = u32[{m}] divide(apart, twos)
  middle = u32[{m}] add(low, half)
  at = u32[{m},1] reshape(middle)
  read = f32[{m},1] gather(table, at), offset_dims={{1}}, collapsed_slice_dims={{}},
    start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}
  there = f32[{m}] reshape(read)
  less = pred[{m}] compare(x, there), direction=LE
  low2 = u32[{m}] select(less, low, middle)
  high2 = u32[{m}] select(less, middle, high)
  ROOT r = (s32[], u32[{m}], u32[{m}], f32[{n}], f32[{m}]) tuple(next, low2, high2, table, x)
}}
ENTRY e {{
  table = f32[{n}] parameter(0)
  x = f32[{m}] parameter(1)
  zero = s32[] constant(0)
  first = u32[] constant(0)
  firsts = u32[{m}] broadcast(first), dimensions={{}}
  last = u32[] constant({n})
  lasts = u32[{m}] broadcast(last), dimensions={{}}
  s = (s32[], u32[{m}], u32[{m}], f32[{n}], f32[{m}]) tuple(zero, firsts, lasts, table, x)
  w = (s32[], u32[{m}], u32[{m}], f32[{n}], f32[{m}]) while(s), condition=goes_on, body=step
  ROOT r = u32[{m}] get-tuple-element(w), index=2
}}"""


def search(n: int, m: int) -> hloom.Module:
    return hloom.parse(SEARCH.format(n=n, m=m, steps=int(np.ceil(np.log2(n + 1)))))


@pytest.mark.parametrize("isa", ["", "AVX2"])
@pytest.mark.parametrize("n", [2, 16, 64, 300, 5000])
def test_finds_places(n: int, isa: str):
    rng = np.random.default_rng(n)
    table = np.sort(rng.standard_normal(n)).astype(np.float32)
    for m in (1, 7, 16, 33, 1000, 40_001):
        x = rng.standard_normal(m).astype(np.float32)
        found = hloom.compile(search(n, m), options={"xla_cpu_max_isa": isa})(table, x)
        assert np.array_equal(np.asarray(found), np.searchsorted(table, x)), m


def test_its_steps_copy_nothing():
    executable = hloom.compile(search(300, 1_000_000))
    copies = [t for t in walk(executable.thunks) if isinstance(t, Copy)]
    assert all(t.source.size_bytes < 4_000_000 for t in copies)
