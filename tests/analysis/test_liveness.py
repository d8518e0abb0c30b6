"""Which parts of results matter."""

from hloom.analysis.liveness import Liveness
from hloom.ir.text import parse_module

CALLS = """
HloModule m
f {{ a = f32[2] parameter(0)
  b = f32[2] parameter(1)
  aa = f32[2] add(a, a)
  bb = f32[2] add(b, b)
  ROOT t = (f32[2], f32[2]) tuple(aa, bb) }}
ENTRY e {{
  p0 = f32[2] parameter(0)
  p1 = f32[2] parameter(1)
  p2 = f32[2] parameter(2)
  p3 = f32[2] parameter(3)
  c = (f32[2], f32[2]) call(p0, p1), to_apply=f
  d = (f32[2], f32[2]) call(p2, p3), to_apply=f
  x = f32[2] get-tuple-element(c), index={first}
  y = f32[2] get-tuple-element(d), index=1
  ROOT r = f32[2] add(x, y)
}}
"""


def test_an_element_no_call_site_uses_is_dead_everywhere():
    module = parse_module(CALLS.format(first=1))
    live = Liveness(module)
    entry, f = module.entry, module["f"]
    assert not live.is_live(entry["c"], (0,)) and live.is_live(entry["c"], (1,))
    assert not live.is_live(entry["d"], (0,))
    assert [live.is_live(entry[f"p{k}"]) for k in range(4)] == [False, True, False, True]
    assert not live.is_live(f["aa"]) and live.is_live(f["bb"])


def test_one_call_site_that_uses_it_makes_it_live_at_all():
    module = parse_module(CALLS.format(first=0))
    live = Liveness(module)
    assert all(live.is_live(module.entry[f"p{k}"]) for k in range(4))


def test_a_loop_element_that_only_feeds_itself_is_dead():
    module = parse_module("""
HloModule m
cond { s = (s32[], f32[2], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT lt = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[2], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  a = f32[2] get-tuple-element(s), index=1
  b = f32[2] get-tuple-element(s), index=2
  b2 = f32[2] negate(b)
  a2 = f32[2] sine(a)
  ROOT t = (s32[], f32[2], f32[2]) tuple(next, a2, b2) }
ENTRY e {
  zero = s32[] constant(0)
  x = f32[2] parameter(0)
  y = f32[2] parameter(1)
  init = (s32[], f32[2], f32[2]) tuple(zero, x, y)
  w = (s32[], f32[2], f32[2]) while(init), condition=cond, body=body
  ROOT u = f32[2] get-tuple-element(w), index=1
}
""")
    live = Liveness(module)
    assert live.is_live(module["body"]["a2"]) and live.is_live(module["body"]["next"])
    assert not live.is_live(module["body"]["b2"])
    assert not live.is_live(module.entry["y"]) and live.is_live(module.entry["x"])
    assert live.live_indices(module.entry["w"]) == {(), (0,), (1,)}


def test_side_effects_are_live():
    module = parse_module("""
HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  y = f32[2] negate(x)
  t = token[] after-all()
  o = token[] outfeed(y, t), outfeed_shape=f32[2]
  ROOT z = f32[] constant(1)
}
""")
    live = Liveness(module)
    assert live.is_live(module.entry["y"]) and live.is_live(module.entry["x"])
