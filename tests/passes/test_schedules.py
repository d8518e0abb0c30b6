"""Passes keep the schedule of a scheduled module: what was there stays in its order."""

import pytest

from hloom.ir.order import order_like
from hloom.ir.text import parse_module, show_module
from hloom.ir.verify import verify
from hloom.passes import pass_named

TEXT = """
HloModule m, is_scheduled=true
f { a = f32[4] parameter(0)
  n = f32[4] negate(a)
  ROOT nn = f32[4] negate(n) }
cond { s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT lt = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  a = f32[4] get-tuple-element(s), index=1
  b = f32[4] get-tuple-element(s), index=2
  neg = f32[4] negate(b)
  ROOT t = (s32[], f32[4], f32[4]) tuple(next, a, neg) }
ENTRY e {
  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  two = f32[] constant(2)
  three = f32[] constant(3)
  six = f32[] multiply(two, three)
  twice = f32[4] negate(x)
  again = f32[4] negate(x)
  back = f32[4] negate(twice)
  called = f32[4] call(back), to_apply=f
  init = (s32[], f32[4], f32[4]) tuple(zero, called, again)
  w = (s32[], f32[4], f32[4]) while(init), condition=cond, body=body
  g = f32[4] get-tuple-element(w), index=1
  wide = f32[4] broadcast(six), dimensions={}
  ROOT r = f32[4] multiply(g, wide)
}
"""
PASSES = "algsimp cse constant-folding dce module-dce tuple-simplifier call-inliner".split()


@pytest.mark.parametrize("name", PASSES)
def test_the_schedule_stays_valid_and_in_order(name):
    module = parse_module(TEXT)
    before = [i.name for i in module.schedule[module.entry]]
    result = pass_named(name).run(module)
    assert result.changed == (name not in ("dce", "tuple-simplifier"))
    verify(module)
    for c, order in module.schedule.items():
        assert set(order) == set(c.instructions)
    after = [i.name for i in module.schedule[module.entry]]
    stayed = [n for n in after if n in before]
    assert stayed == [n for n in before if n in stayed]
    verify(parse_module(show_module(module)))


def test_new_instructions_stand_before_their_first_reader():
    module = parse_module(TEXT)
    entry = module.entry
    old = list(module.schedule[entry])
    new = entry.add("sine", entry["x"], name="new")
    entry["w"].add_control_predecessor(new)
    order = order_like(old, entry)
    assert order.index(new) == order.index(entry["w"]) - 1
    assert [i for i in order if i is not new] == old
