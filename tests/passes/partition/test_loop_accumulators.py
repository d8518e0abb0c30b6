"""Sums that loops carry are put together once, behind the loop."""

import pytest

from hloom.analysis.communication import communications
from tests.passes.partition.test_partitioner import cut_and_compared

LOOP = """test {{
  t = (s32[], f32[4,16,8], f32[8,8]) parameter(0)
  k = s32[] get-tuple-element(t), index=0
  n = s32[] constant(4)
  ROOT c = pred[] compare(k, n), direction=LT
}}
body {{
  t = (s32[], f32[4,16,8], f32[8,8]) parameter(0)
  k = s32[] get-tuple-element(t), index=0
  x = f32[4,16,8] get-tuple-element(t), index=1
  sum = f32[8,8] get-tuple-element(t), index=2
  z = s32[] constant(0)
  row = f32[1,16,8] dynamic-slice(x, k, z, z), dynamic_slice_sizes={{1,16,8}}
  a = f32[16,8] reshape(row)
  b = f32[16,8] sine(a)
  g = f32[8,8] dot(a, b), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  {step}
  one = s32[] constant(1)
  j = s32[] add(k, one)
  ROOT r = (s32[], f32[4,16,8], f32[8,8]) tuple(j, x, next)
}}
ENTRY main {{
  x = f32[4,16,8] parameter(0), sharding={{devices=[1,4,1]<=[4]}}
  first = f32[8,8] parameter(1), sharding={{replicated}}
  z = s32[] constant(0)
  s = (s32[], f32[4,16,8], f32[8,8]) tuple(z, x, first)
  w = (s32[], f32[4,16,8], f32[8,8]) while(s), condition=test, body=body
  ROOT v = f32[8,8] get-tuple-element(w), index=2, sharding={{replicated}}
}}"""
ONCE = "next = f32[8,8] add(sum, g)"
LINEAR = """h = f32[8,8] transpose(g), dimensions={1,0}
  m = f32[8,8] negate(h)
  next = f32[8,8] add(m, sum)"""


@pytest.mark.parametrize("step", [ONCE, LINEAR])
def test_products_are_added_up_and_put_together_behind_the_loop(step: str) -> None:
    cut = cut_and_compared(LOOP.format(step=step), 4)
    (row,) = communications(cut)
    assert row.kind == "all-reduce" and row.runs == 1


def test_a_sum_that_a_step_reads_is_put_together_in_each() -> None:
    read = "d = f32[8,8] tanh(sum)\n  e = f32[8,8] multiply(d, g)\n  next = f32[8,8] add(sum, e)"
    cut = cut_and_compared(LOOP.format(step=read), 4)
    assert max(r.runs for r in communications(cut)) == 4


BIASED = """c = f32[] constant(3)
  every = f32[8,8] broadcast(c), dimensions={}
  h = f32[8,8] add(g, every)
  next = f32[8,8] add(sum, h)"""
COUNTED = """n = s32[8,8] convert(g)
  h = f32[8,8] convert(n)
  next = f32[8,8] add(sum, h)"""
MARKED = """n = pred[8,8] convert(g)
  h = f32[8,8] convert(n)
  next = f32[8,8] add(sum, h)"""
ROUNDED = """n = bf16[8,8] convert(g)
  h = f32[8,8] convert(n)
  next = f32[8,8] add(sum, h)"""
WRAPPED = """n = s8[8,8] convert(g)
  w = s8[8,8] add(n, n)
  h = f32[8,8] convert(w)
  next = f32[8,8] add(sum, h)"""


@pytest.mark.parametrize("step", [BIASED, COUNTED, MARKED, ROUNDED, WRAPPED])
def test_what_parts_of_a_sum_would_change_is_not_done_to_them(step: str) -> None:
    """A term that all devices have is added once; digits are cut of whole sums."""
    cut_and_compared(LOOP.format(step=step), 4)
