"""Values and where they may stand."""

from hloom.analysis.dataflow import Dataflow
from hloom.ir.text import parse_module

SCALARS = """
HloModule m
cond { s = s32[] parameter(0)
  n = s32[] constant(5)
  ROOT lt = pred[] compare(s, n), direction=LT }
body { s = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT add = s32[] add(s, one) }
ENTRY e {
  p = s32[1] parameter(0)
  b = s32[] bitcast(p)
  w = s32[] while(b), condition=cond, body=body
  ROOT r = s32[1] bitcast(w)
}
"""
LOOP = """
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
  neg = f32[2] negate(a)
  ROOT t = (s32[], f32[2], f32[2]) tuple(next, neg, b) }
ENTRY e {
  zero = s32[] constant(0)
  x = f32[2] parameter(0)
  y = f32[2] parameter(1)
  init = (s32[], f32[2], f32[2]) tuple(zero, x, y)
  w = (s32[], f32[2], f32[2]) while(init), condition=cond, body=body
  u = f32[2] get-tuple-element(w), index=1
  v = f32[2] get-tuple-element(w), index=2
  ROOT r = (f32[2], f32[2]) tuple(u, v)
}
"""


def names(values):
    return {v.instruction.name for v in values}


def test_effectively_scalar_values_meet_in_a_loop():
    module = parse_module(SCALARS)
    flow = Dataflow(module)
    assert names(flow.at(module.entry["r"])) == {"p", "add"}
    opaque = Dataflow(module, bitcast_defines_value=True)
    assert names(opaque.at(module.entry["r"])) == {"r"}
    assert names(opaque.at(module.entry["w"])) == {"b", "add"}


def test_unions_through_a_loop():
    module = parse_module(LOOP)
    flow = Dataflow(module)
    assert names(flow.at(module.entry["u"])) == {"x", "neg"}
    assert names(flow.at(module.entry["v"])) == {"y"}
    assert names(flow.at(module["body"]["i"])) == {"zero", "next"}
    assert names(flow.at(module.entry["r"], (0,))) == {"x", "neg"}


def test_ssa_form_has_phis_only_where_values_meet():
    module = parse_module(LOOP)
    flow = Dataflow(module, ssa_form=True)
    phi = flow.unique(module.entry["u"])
    assert phi.is_phi and phi.instruction is module.entry["w"] and phi.index == (1,)
    passed = flow.unique(module.entry["v"])
    assert not passed.is_phi and passed.instruction is module.entry["y"]
    assert flow.unique(module["body"]["b"]) is passed
    assert not [v for v in flow.values() if v.is_phi and v.index == (2,)]


def test_calls_and_conditionals():
    module = parse_module("""
HloModule m
f { a = f32[2] parameter(0)
  ROOT t = (f32[2], f32[2]) tuple(a, a) }
g { a = f32[2] parameter(0)
  n = f32[2] negate(a)
  ROOT t = (f32[2], f32[2]) tuple(n, a) }
ENTRY e {
  k = pred[] parameter(0)
  x = f32[2] parameter(1)
  y = f32[2] parameter(2)
  c = (f32[2], f32[2]) call(x), to_apply=f
  d = (f32[2], f32[2]) call(y), to_apply=f
  b = (f32[2], f32[2]) conditional(k, x, y), true_computation=f, false_computation=g
  ROOT r = ((f32[2], f32[2]), (f32[2], f32[2]), (f32[2], f32[2])) tuple(c, d, b)
}
""")
    flow = Dataflow(module)
    assert names(flow.at(module.entry["c"], (0,))) == {"x", "y"}
    assert names(flow.at(module.entry["b"], (0,))) == {"x", "y", "n"}
    assert names(flow.at(module.entry["r"], (1, 1))) == {"x", "y"}
    apart = Dataflow(module, through_calls=False)
    assert names(apart.at(module.entry["c"], (0,))) == {"c"}
    assert names(apart.at(module["f"]["a"])) == {"a"}


def test_asynchronous_pairs_hand_on():
    module = parse_module("""
HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  s = (f32[2], f32[2], u32[]) copy-start(x)
  d = f32[2] copy-done(s)
  a = ((f32[2]), f32[2], u32[]) negate-start(x)
  z = f32[2] negate-done(a)
  ROOT t = (f32[2], f32[2]) tuple(d, z)
}
""")
    flow = Dataflow(module)
    entry = module.entry
    assert names(flow.at(entry["s"], (1,))) == {"x"}
    assert flow.unique(entry["d"]).instruction is entry["s"]
    assert flow.unique(entry["z"]).instruction.opcode == "negate"
    assert names(flow.at(entry["a"], (0, 0))) == {"x"}
    copied = flow.unique(entry["d"])
    assert (entry["t"], (0,)) in flow.positions(copied)


def test_linear_on_a_long_chain():
    lines = [f" x{k} = f32[2] add(x{k - 1}, x{k - 1})" for k in range(1, 30_000)]
    text = "HloModule m\nENTRY e {\n x0 = f32[2] parameter(0)\n" + "\n".join(lines) + "\n}"
    module = parse_module(text)
    flow = Dataflow(module, ssa_form=True)
    assert flow.unique(module.entry.root).instruction is module.entry.root
