"""What Shardy says in HLO and in StableHLO: priorities, barriers, regions, open dimensions."""

import numpy as np
import pytest

from hloom import parse, pass_named, random_arguments, show
from hloom.base.diagnostics import ParseError
from hloom.interp.lockstep import evaluate_lockstep
from hloom.ir.values.sharding_sdy import read_meshes, read_shardings
from hloom.passes.partition.whole_program import partitioned, split_arguments
from hloom.passes.sharding.sharding_propagation import explained_shardings
from tests.passes.partition.test_partitioner import cut_and_compared

MESH = 'frontend_attributes={xla.sdy.meshes={m = #sdy.mesh<["x"=4, "y"=2]>}}'


def sdy(*shardings: str) -> str:
    """Of one value, or of each of several."""
    texts = [s.replace('"', '\\"') for s in shardings]
    if len(texts) == 1:
        return f'frontend_attributes={{xla.sdy.sharding="#sdy.sharding<@m, {texts[0]}>"}}'
    each = ", ".join(f"<@m, {t}>" for t in texts)
    return f'frontend_attributes={{xla.sdy.sharding="#sdy.sharding_per_value<[{each}]>"}}'


def propagated(body: str, header: str = MESH):
    module = parse(f"HloModule m, num_partitions=8, {header}\n\nENTRY e {{\n{body}\n}}")
    pass_named("shardy-importer").run(module)
    pass_named("sharding-propagation").run(module)
    return module


def tiles(module, name: str) -> tuple[int, ...]:
    s = module.entry[name].sharding
    return (1, 1) if s is None else tuple(s.num_tiles(d) for d in range(2))


@pytest.mark.parametrize(("first", "second", "want"), [("", "p1", (4, 1)), ("p2", "p1", (1, 4))])
def test_what_has_a_lower_priority_number_spreads_first(first, second, want):
    """Of two that want one axis for different dimensions; nothing else tells them apart."""
    module = propagated(
        f"""  a = f32[8,8] parameter(0), {sdy('[{"x"}' + first + ", {}]")}
  b = f32[8,8] parameter(1), {sdy('[{}, {"x"}' + second + "]")}
  ROOT c = f32[8,8] add(a, b)"""
    )
    assert tiles(module, "c") == want
    assert tiles(module, "a") == (4, 1)
    assert tiles(module, "b") == (1, 4)


def test_an_open_dimension_with_a_priority_opens_late():
    """`{?}p1` takes what came to `c` in the first round, not before."""
    module = propagated(
        f"""  a = f32[8,8] parameter(0), {sdy('[{"x"}, {}]')}
  b = f32[8,8] custom-call(a), custom_call_target="Sharding", {sdy("[{?}p1, {?}]")}
  ROOT c = f32[8,8] negate(b)"""
    )
    assert tiles(module, "b") == tiles(module, "c") == (4, 1)
    why = {r.value.name: r.why for r in explained_shardings(parse(show(module)))}
    assert "given at %b" in why["b"]


BARRIER = """  a = f32[8,8] parameter(0), LEFT
  n = f32[8,8] negate(a)
  b = f32[8,8] custom-call(n), custom_call_target="xla.sdy.PropagationBarrier",
    frontend_attributes={xla.sdy.allowed_direction="WHICH"}
  t = f32[8,8] tanh(b)
  ROOT c = f32[8,8] custom-call(t), custom_call_target="Sharding", RIGHT"""


@pytest.mark.parametrize(
    ("which", "forward", "backward"),
    [("0 : i32", 0, 0), ("1 : i32", 1, 0), ("2 : i32", 0, 1), ("3 : i32", 1, 1), ("FORWARD", 1, 0)],
)
def test_a_barrier_lets_through_what_it_says(which, forward, backward):
    text = BARRIER.replace("WHICH", which)
    open_, cut = sdy("[{?}, {?}]"), sdy('[{"x"}, {}]')
    there = propagated(text.replace("LEFT", cut).replace("RIGHT", open_))
    assert tiles(there, "n") == (4, 1)
    assert tiles(there, "t") == ((4, 1) if forward else (1, 1))
    back = propagated(text.replace("LEFT", sdy("[{}, {}]")).replace("RIGHT", cut))
    assert tiles(back, "t") == (4, 1)
    assert tiles(back, "n") == ((4, 1) if backward else (1, 1))


REGION = """add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

body {
  v = f32[4,8] parameter(0)
  w = f32[8,16] parameter(1)
  d = f32[4,16] dot(v, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  o = f32[4,16] custom-call(d), custom_call_target="Sharding", sharding={replicated}, OPEN
  r = f32[4,16] all-reduce(o), channel_id=1, replica_groups={{0,2,4,6},{1,3,5,7}},
    use_global_device_ids=true, to_apply=add
  ROOT t = (f32[4,16], f32[4,16]) tuple(r, d)
}

ENTRY main {
  x = f32[16,8] parameter(0), sharding={devices=[4,2]<=[8]}, SHARDED
  y = f32[8,16] transpose(x), dimensions={1,0}
  g = (f32[4,8], f32[8,16]) custom-call(x, y), custom_call_target="xla.sdy.GlobalToLocalShape",
    custom_call_has_side_effect=true, frontend_attributes={IN,
    xla.sdy.manual_axes="#sdy<manual_axes{\\"x\\"}>"}
  g0 = f32[4,8] get-tuple-element(g), index=0
  g1 = f32[8,16] get-tuple-element(g), index=1
  c = (f32[4,16], f32[4,16]) call(g0, g1), to_apply=body, frontend_attributes={inlineable="false"}
  c0 = f32[4,16] get-tuple-element(c), index=0
  c1 = f32[4,16] get-tuple-element(c), index=1
  l = (f32[4,16], f32[16,16]) custom-call(c0, c1), custom_call_target="xla.sdy.LocalToGlobalShape",
    custom_call_has_side_effect=true, frontend_attributes={OUT,
    xla.sdy.manual_axes="#sdy<manual_axes{\\"x\\"}>"}
  l0 = f32[4,16] get-tuple-element(l), index=0
  l1 = f32[16,16] get-tuple-element(l), index=1
  z = f32[4,16] custom-call(l0), custom_call_target="xla.sdy.FuncResultSharding",
    custom_call_has_side_effect=true, RESULT
  note = () custom-call(l1), custom_call_target="xla.sdy.ShardingGroup",
    custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding_group_id="0 : i64"}
  ROOT end = (f32[4,16], f32[16,16]) tuple(z, l1)
}"""


def each(key: str, *shardings: str) -> str:
    texts = [f"<@m, {s}>".replace('"', '\\"') for s in shardings]
    return f'xla.sdy.{key}="#sdy.sharding_per_value<[{", ".join(texts)}]>"'


def test_a_shard_map_as_jax_writes_it_into_hlo():
    """Open dimensions at the border of a region take no axis that the region has by hand."""
    text = (
        REGION.replace("OPEN", sdy("[{?}, {?}]"))
        .replace("SHARDED", sdy('[{"x"}, {"y"}]'))
        .replace("IN,", each("in_shardings", '[{"x", ?}, {?}]', "[{?}, {?}]") + ",")
        .replace("OUT,", each("out_shardings", "[{?}, {?}]", '[{"x", ?}, {?}]') + ",")
        .replace("RESULT", sdy('[{"y"}, {}]'))
    )
    header = f"HloModule m, num_partitions=8, {MESH}\n\n"
    module = parse(header + text)
    module.use_spmd_partitioning = True
    result = pass_named("shardy-importer").run(module)
    assert result.fired["borders"] == 2
    assert "xla.sdy" not in show(module).replace("%xla.sdy", "")
    assert not pass_named("shardy-importer").run(module).changed
    whole = parse(header + text)
    whole.use_spmd_partitioning = True
    (x,) = random_arguments(whole, seed=1)
    cut = partitioned(whole)
    results = evaluate_lockstep(cut, split_arguments(cut, [x]))
    a = np.asarray(x.array)
    sums = (a @ a.T).reshape(4, 4, 16).sum(0)
    for d, result in enumerate(results):
        z, l1 = [np.asarray(x.array) for x in result.elements]
        np.testing.assert_allclose(z, sums[2 * (d % 2) :][:2], rtol=1e-5, atol=1e-5)
        # Nothing says how the second one stands along y.
        begin = {16: 0, 4: 4 * (d // 2), 2: 2 * d}[len(l1)]
        np.testing.assert_allclose(l1, (a @ a.T)[begin:][: len(l1)], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('#sdy.sharding<@n, [{"x"}]>', "there is no mesh @n"),
        ('#sdy.sharding<@m, [{"z"}]>', 'the mesh has no axis "z"'),
        ('#sdy.sharding<@m, [{"x"}, {"x"}]>', "used twice"),
        ('#sdy.sharding<@m, [{"x"}]', "expected"),
        ("{devices=[2]<=[2]}", "to start a sharding of Shardy"),
    ],
)
def test_a_text_that_is_none_is_refused(text, message):
    meshes = read_meshes('{m = #sdy.mesh<["x"=4, "y"=2]>}')
    with pytest.raises(ParseError, match=message):
        read_shardings(text, meshes)


def test_a_barrier_moves_nothing():
    cut = cut_and_compared(
        """ENTRY main {
  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  b = f32[8,4] custom-call(x), custom_call_target="xla.sdy.PropagationBarrier",
    sharding={devices=[4,1]<=[4]}
  ROOT y = f32[8,4] negate(b), sharding={devices=[4,1]<=[4]}
}"""
    )
    assert not [i for i in cut.instructions() if i.opcode == "all-gather"]


def test_who_asks_is_told_who_won_and_what_let_nothing_through():
    module = parse(
        f"""HloModule m, num_partitions=8, {MESH}

ENTRY e {{
  a = f32[8,8] parameter(0), {sdy('[{"x"}p1, {}]')}
  b = f32[8,8] parameter(1), {sdy('[{}, {"x"}]')}
  c = f32[8,8] add(a, b)
  ROOT k = f32[8,8] custom-call(c), custom_call_target="xla.sdy.PropagationBarrier"
}}"""
    )
    why = {r.value.name: r.why for r in explained_shardings(module)}
    assert "dimension 0 has priority 1" in why["a"]
    assert "an axis of factor 0 cuts factor 1 there, as %b, %c say" in why["a"]
    assert "lets no sharding of its operand through" in why["k"]
    module.use_spmd_partitioning = True
    cut = partitioned(module)
    assert cut.spmd_parameters_shardings[0].tile_sizes((8, 8)) == (2, 8)
