"""Loops over arrays of run-time size in whose bodies devices talk: the loop is replaced, once."""

from __future__ import annotations

from hloom.ir.text import parse_module
from hloom.ir.verify import verify
from hloom.passes import pass_named

LOOP = """HloModule loop, replica_count=2
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
body {
  s = (s32[], f32[2,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[2,3] get-tuple-element(s), index=1
  sum = f32[2,3] all-reduce(y), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true,
    to_apply=add
  ROOT t = (s32[], f32[2,3]) tuple(j, sum)
}
condition {
  s = (s32[], f32[2,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT
}
ENTRY e {
  y = f32[<=2,3] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[2,3]) tuple(zero, y)
  w = (s32[], f32[2,3]) while(init), condition=condition, body=body
  ROOT k = f32[2,3] get-tuple-element(w), index=1
}
"""


def test_a_loop_with_effects_is_replaced() -> None:
    module = parse_module(LOOP)
    assert pass_named("dynamic-padder").run(module).changed
    verify(module)
    opcodes = [i.opcode for i in module.instructions()]
    assert opcodes.count("while") == 1
    summed = [i for i in module.instructions() if i.opcode == "all-reduce"]
    assert sorted(i.shape.dtype.name for i in summed) == ["f32", "s32"]  # numbers, and the sizes


PERMUTED = """HloModule permuted
ENTRY e {
  x = f32[4,3] parameter(0)
  n = s32[] parameter(1)
  y = f32[<=4,3] set-dimension-size(x, n), dimensions={0}
  ROOT p = f32[<=4,3] collective-permute(y), source_target_pairs={{0,1}}
}
"""


def test_what_nobody_sends_one_device_keeps_its_run_time_size() -> None:
    module = parse_module(PERMUTED)
    assert not pass_named("degenerate-collective-elimination").run(module).changed
    assert pass_named("dynamic-padder").run(module).changed
    verify(module)


def test_sizes_go_as_numbers_do_where_layouts_are_fixed() -> None:
    module = parse_module(LOOP.replace("to_apply=add\n", "constrain_layout=true, to_apply=add\n"))
    assert pass_named("dynamic-padder").run(module).changed
    verify(module)
