"""States of loops: brought once to what the steps say, before the loop."""

import pytest

from hloom.analysis.communication import communications
from hloom.passes.partition.whole_program import partitioned
from tests.fuzz import partition_sketch_calls  # noqa: F401  kinds of steps
from tests.fuzz.partition_programs import check
from tests.fuzz.partition_sketch import Sketch
from tests.passes.partition.test_partitioner import cut_and_compared, traffic

# A counter and two arrays go round.
STEPS = """test {
  t = (s32[], f32[16,8], f32[16,8]) parameter(0)
  k = s32[] get-tuple-element(t), index=0
  n = s32[] constant(%d)
  ROOT c = pred[] compare(k, n), direction=LT
}
body {
  t = (s32[], f32[16,8], f32[16,8]) parameter(0)
  k = s32[] get-tuple-element(t), index=0
  a = f32[16,8] get-tuple-element(t), index=1
  b = f32[16,8] get-tuple-element(t), index=2
  one = s32[] constant(1)
  j = s32[] add(k, one)
"""
LOOP = (
    STEPS % 5
    + """  p = f32[16,8] tanh(a), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  q = f32[16,8] sine(b)
  ROOT r = (s32[], f32[16,8], f32[16,8]) tuple(j, q, p)
}
ENTRY main {
  x = f32[16,8] parameter(0), sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}
  y = f32[16,8] parameter(1), sharding={devices=[8,1]<=[2,4]T(1,0)}
  z = s32[] constant(0)
  s = (s32[], f32[16,8], f32[16,8]) tuple(z, x, y)
  w = (s32[], f32[16,8], f32[16,8]) while(s), condition=test, body=body
  ROOT v = f32[16,8] get-tuple-element(w), index=1, sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}
}"""  # noqa: E501  a sharding is one word
)


def test_a_state_is_brought_once_to_what_its_steps_say() -> None:
    cut = cut_and_compared(LOOP, 8)
    assert traffic(cut) != {}
    assert all(r.runs == 1 for r in communications(cut))


@pytest.mark.parametrize(("seed", "most"), [(44001, 300), (44074, 300), (44038, 470)])
def test_states_of_random_loops(seed: int, most: int) -> None:
    kinds = ("loop", "conditional", "pair", "unary", "transpose", "dot")
    cut = partitioned(Sketch(seed, kinds).module())
    assert sum([r.total_bytes for r in communications(cut)]) < most


def test_a_swapped_state_of_a_random_program() -> None:
    check(41038)


ROWS = (
    STEPS % 16
    + """  zero = s32[] constant(0)
  row = f32[1,8] dynamic-slice(a, k, zero), dynamic_slice_sizes={1,8}
  p = f32[1,8] tanh(row)
  q = f32[16,8] dynamic-update-slice(b, p, k, zero)
  ROOT r = (s32[], f32[16,8], f32[16,8]) tuple(j, a, q)
}
ENTRY main {
  x = f32[16,8] parameter(0), sharding={devices=[8,1]<=[8]}
  z = s32[] constant(0)
  f = f32[] constant(0)
  y = f32[16,8] broadcast(f), dimensions={}
  s = (s32[], f32[16,8], f32[16,8]) tuple(z, x, y)
  w = (s32[], f32[16,8], f32[16,8]) while(s), condition=test, body=body
  ROOT v = f32[16,8] get-tuple-element(w), index=2, sharding={devices=[8,1]<=[8]}
}"""
)


def test_rows_of_steps_are_cut_by_columns_where_rows_were() -> None:
    """Each step would gather its row; all of them are exchanged once, and no device has more."""
    cut = cut_and_compared(ROWS, 8)
    assert traffic(cut) == {"all-to-all": 2 * 16}
    assert all(r.runs == 1 for r in communications(cut))
