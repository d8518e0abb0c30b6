"""Flattening, folding, merging, removing, on programs of our own."""

import pytest

import hloom
from hloom.passes.control.flatten_call_graph import FlattenCallGraph, only_called_by_calls


def run(text: str, name: str, **options):
    module = hloom.parse(text)
    hloom.verify(module)
    result = hloom.pass_named(name, **options).run(module)
    hloom.verify(module)
    assert hloom.difference(module, hloom.parse(hloom.show(module))) is None
    return module, result


def counts(module) -> dict[str, int]:
    return {c.name: sum(c.callers.values()) for c in module.computations}


DIAMOND = """HloModule m{scheduled}
g {{
  p = f32[] parameter(0)
  ROOT r = f32[] negate(p)
}}
f {{
  p = f32[] parameter(0)
  a = f32[] call(p), to_apply=g
  ROOT r = f32[] call(a), to_apply=g
}}
ENTRY e {{
  p = f32[] parameter(0)
  a = f32[] call(p), to_apply=f
  ROOT r = f32[] call(a), to_apply=f
}}
"""


@pytest.mark.parametrize("scheduled", ["", ", is_scheduled=true"])
def test_what_a_clone_calls_is_its_own(scheduled):
    module, result = run(DIAMOND.format(scheduled=scheduled), "flatten-call-graph")
    assert result.changed
    assert sorted(counts(module).values()) == [0, 1, 1, 1, 1, 1, 1]
    assert module.is_scheduled is bool(scheduled)
    if module.schedule is not None:
        assert set(module.schedule) == set(module.computations)
    assert not FlattenCallGraph().run(module).changed
    again, _ = run(DIAMOND.format(scheduled=scheduled), "flatten-call-graph")
    assert hloom.show(again) == hloom.show(module)


def test_one_instruction_may_name_a_computation_twice():
    text = DIAMOND.format(scheduled="").replace(
        "call(a), to_apply=f", "conditional(k, a, a), true_computation=f, false_computation=f"
    )
    text = text.replace("ENTRY e {", "ENTRY e {\n  k = pred[] constant(true)")
    module, _ = run(text, "flatten-call-graph")
    assert all(n == (0 if name == "e" else 1) for name, n in counts(module).items())


def test_the_first_caller_keeps_it_and_a_handler_may_skip():
    module, _ = run(DIAMOND.format(scheduled=""), "flatten-call-graph")
    assert module.entry["a"].called[0].name == "f"
    _, result = run(DIAMOND.format(scheduled=""), "flatten-call-graph", skip=only_called_by_calls)
    assert not result.changed


LOOP = """HloModule m
c {
  s = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=1
  n = s32[] constant(LIMIT)
  ROOT r = pred[] compare(i, n), direction=LT
}
b {
  s = (s32[], s32[]) parameter(0)
  a = s32[] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  o = s32[] constant(1)
  j = s32[] add(i, o)
  x = s32[] add(a, i)
  ROOT t = (s32[], s32[]) tuple(x, j)
}
f {
  z = s32[] parameter(0)
  t = (s32[], s32[]) tuple(z, z)
  w = (s32[], s32[]) while(t), condition=c, body=b
  ROOT g = s32[] get-tuple-element(w), index=0
}
ENTRY e {
  z = s32[] constant(0)
  ROOT r = s32[] call(z), to_apply=f
}
"""


def test_short_loops_fold_and_long_ones_stay():
    module, _ = run(LOOP.replace("LIMIT", "10"), "constant-folding")
    assert module.entry.root.opcode == "constant"
    assert hloom.evaluate(module).array == 45
    module, result = run(LOOP.replace("LIMIT", "2000000000"), "constant-folding")
    assert not result.changed


def test_a_body_that_cannot_be_folded_is_found_at_any_depth():
    text = """g {
  a = u64[2]{0} parameter(0)
  r = (u64[2]{0}, u32[4]{0}) rng-bit-generator(a), algorithm=rng_three_fry
  ROOT v = u32[4]{0} get-tuple-element(r), index=1
}
f {
  a = u64[2]{0} parameter(0)
  ROOT v = u32[4]{0} call(a), to_apply=g
}
ENTRY e {
  k = u64[2]{0} constant({1, 2})
  ROOT v = u32[4]{0} call(k), to_apply=f
}"""
    assert not run(text, "constant-folding")[1].changed


def test_bodies_compare_by_what_they_hold():
    text = """f {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
g {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT k = f32[] add(y, x)
}
h {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT k = f32[] subtract(y, x)
}
ENTRY e {
  v = f32[4]{0} parameter(0)
  z = f32[] constant(0)
  m = f32[] constant(-0)
  a = f32[] reduce(v, z), dimensions={0}, to_apply=f
  b = f32[] reduce(v, z), dimensions={0}, to_apply=g
  c = f32[] reduce(v, z), dimensions={0}, to_apply=h
  d = f32[] reduce(v, m), dimensions={0}, to_apply=f
  ROOT t = (f32[], f32[], f32[], f32[]) tuple(a, b, c, d)
}"""
    module, _ = run(text, "cse")
    assert [x.name for x in module.entry.root.operands] == ["a", "a", "c", "d"]


GATHERS = """HloModule m, num_partitions=2
ENTRY e {
  x = f32[2]{0} parameter(0)
  a = f32[4]{0} all-gather(x), channel_id=1, replica_groups={{0,1}}, dimensions={0}
  b = f32[4]{0} all-gather(x), channel_id=2, replica_groups={{0,1}}, dimensions={0}
  ROOT t = (f32[4]{0}, f32[4]{0}) tuple(a, b)
}"""


@pytest.mark.parametrize("spmd", [False, True])
def test_channels_count_without_spmd_partitioning(spmd):
    module = hloom.parse(GATHERS)
    module.use_spmd_partitioning = spmd
    assert hloom.pass_named("cse").run(module).changed is spmd


def test_random_bodies_are_not_merged():
    text = """f {
  a = f32[] parameter(0)
  ROOT r = f32[4]{0} rng(a, a), distribution=rng_uniform
}
ENTRY e {
  a = f32[] parameter(0)
  u = f32[4]{0} fusion(a), kind=kLoop, calls=f
  v = f32[4]{0} fusion(a), kind=kLoop, calls=f.1
  ROOT t = (f32[4]{0}, f32[4]{0}) tuple(u, v)
}"""
    body = text[: text.index("ENTRY")]
    text = body + body.replace("f {", "f.1 {", 1) + text[text.index("ENTRY") :]
    assert not run(text, "cse", ignore_fusions=False)[1].changed
    same = text.replace("rng(a, a), distribution=rng_uniform", "broadcast(a), dimensions={}")
    assert run(same, "cse", ignore_fusions=False)[1].changed


def test_a_dead_output_of_a_scheduled_fusion():
    text = """HloModule m, is_scheduled=true
f {
  p = f32[4]{0} parameter(0)
  n = f32[4]{0} negate(p)
  ROOT t = (f32[4]{0}, f32[4]{0}) tuple(n, p)
}
ENTRY e {
  x = f32[4]{0} parameter(0)
  u = (f32[4]{0}, f32[4]{0}) fusion(x), kind=kLoop, calls=f, origin={({"a"}, {"b"})}
  g = f32[4]{0} get-tuple-element(u), index=0
  ROOT s = f32[4]{0} add(g, g)
}"""
    module, result = run(text, "dce")
    assert result.fired["fusion outputs"] == 1
    assert module.entry["u"].shape.text == "f32[4]{0}"
    assert module.entry["u"].extra["original_value"].text == '{{"a"}}'


def test_what_is_known_of_a_loop_follows_its_elements():
    text = LOOP.replace("LIMIT", "4").replace(
        "condition=c, body=b",
        'condition=c, body=b, origin={({"x"}, {"i"})}, backend_config={"known_trip_count":'
        '{"n":"4"},"known_induction_variable":{"tuple_index":"1"},'
        '"dynamic_variables":[{"tuple_index":0}]}',
    )
    text = text.replace(
        "ROOT g = s32[] get-tuple-element(w), index=0",
        "ROOT g = s32[] get-tuple-element(w), index=1",
    )
    module, result = run(text, "module-dce")
    assert result.fired["loop elements"] == 1
    loop = module["f"]["w"]
    assert loop.backend_config.json == {
        "known_trip_count": {"n": "4"},
        "known_induction_variable": {"tuple_index": "0"},
        "dynamic_variables": [],
    }
    assert loop.extra["original_value"].text == '{({"i"})}'
    assert hloom.evaluate(module).array == 4


def test_a_dead_outfeed_stays():
    text = """ENTRY e {
  x = f32[4]{0} parameter(0)
  k = token[] after-all()
  o = token[] outfeed(x, k), outfeed_shape=f32[4]{0}
  d = f32[4]{0} negate(x)
  ROOT r = f32[4]{0} sine(x)
}"""
    module, _ = run(text, "dce")
    assert {i.opcode for i in module.entry} == {"parameter", "after-all", "outfeed", "sine"}
