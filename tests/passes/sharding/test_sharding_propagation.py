"""Sharding propagation: what is cut, what is kept, and that it settles."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from hloom import parse, pass_named, show, verify
from hloom.interp.draw import draw_instance
from hloom.ir.op import OPS
from hloom.ir.values.sharding import Sharding
from hloom.passes.sharding.sharding_propagation import explained_shardings
from hloom.passes.sharding.sharding_propagation import propagated as decided
from hloom.tools.main import app

ROWS = "{devices=[4,1]<=[4]}"


def propagated(text: str):
    module = parse(text)
    result = pass_named("sharding-propagation").run(module)
    verify(module)
    again = pass_named("sharding-propagation").run(module)
    assert not again.changed
    return module, result


def sharding(module, name: str, computation: str | None = None) -> str | None:
    c = module[computation] if computation else module.entry
    found = c[name].sharding
    return None if found is None else found.text


CHAIN = """
HloModule m, num_partitions=4

ENTRY e {
  x = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}
  w = f32[16,32] parameter(1)
  a = f32[8,16] tanh(x)
  b = f32[8,16] add(a, x)
  d = f32[8,32] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT n = f32[8,32] negate(d)
}
"""


def test_a_chain_is_cut_as_its_input_is():
    module, result = propagated(CHAIN)
    assert result.changed
    assert [sharding(module, n) for n in "abdn"] == [ROWS] * 4
    assert sharding(module, "w") is None


@pytest.mark.parametrize("flag", ["false", "true"])
def test_a_parameter_is_cut_only_where_the_program_allows_it(flag):
    text = CHAIN.replace("w = f32[16,32] parameter(1)", "w = f32[8,16] parameter(1)").replace(
        "add(a, x)", "add(a, w)"
    )
    text = text.replace("d = f32[8,32] dot(b, w), lhs", "d = f32[8,8] dot(b, b), lhs").replace(
        "rhs_contracting_dims={0}", "rhs_contracting_dims={1}"
    )
    text = text.replace("ROOT n = f32[8,32]", "ROOT n = f32[8,8]").replace(
        "num_partitions=4",
        f"num_partitions=4, allow_spmd_sharding_propagation_to_parameters={{false,{flag}}}",
    )
    module, _ = propagated(text)
    assert sharding(module, "w") == (ROWS if flag == "true" else None)


LOOP = """
HloModule m, num_partitions=4

body {
  s = (s32[], f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[8,4] tanh(x)MARK
  ROOT t = (s32[], f32[8,4]) tuple(j, y)
}

cond {
  s = (s32[], f32[8,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY e {
  z = s32[] constant(0)
  x = f32[8,4] parameter(0)
  e = f32[8,4] exponential(x)
  st = (s32[], f32[8,4]) tuple(z, e)
  l = (s32[], f32[8,4]) while(st), condition=cond, body=body
  ROOT r = f32[8,4] get-tuple-element(l), index=1
}
"""


def test_what_is_cut_in_the_body_of_a_loop_is_so_before_in_and_after_it():
    module, _ = propagated(LOOP.replace("MARK", ", sharding={devices=[4,1]<=[4]}"))
    whole = "{{replicated}, " + ROWS + "}"
    assert sharding(module, "e") == sharding(module, "r") == ROWS
    assert sharding(module, "st") == sharding(module, "l") == whole
    assert sharding(module, "s", "body") == sharding(module, "t", "body") == whole
    assert sharding(module, "s", "cond") == whole


def test_an_axis_of_weights_does_not_cost_the_batch_its_own():
    """The batch and the weights' rows are cut along one axis: the weights are gathered."""
    module, _ = propagated(
        CHAIN.replace("parameter(1)", "parameter(1), sharding={devices=[4,1]<=[4]}")
    )
    assert sharding(module, "d") == ROWS
    assert sharding(module, "w") == ROWS


@pytest.mark.parametrize("operands", ["x, y", "y, x"])
def test_of_values_of_one_size_the_one_in_more_parts_leads(operands: str):
    text = f"""HloModule m, num_partitions=8
    ENTRY e {{
      x = f32[8,16] parameter(0), sharding={{devices=[2,1,4]<=[8] last_tile_dim_replicate}}
      y = f32[8,16] parameter(1), sharding={{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}}
      ROOT z = f32[8,16] add({operands})
    }}"""
    module, _ = propagated(text)
    assert sharding(module, "z") == sharding(module, "y")


def test_who_asks_is_told_where_a_sharding_came_from():
    reasons = {r.value.name: r for r in explained_shardings(parse(CHAIN))}
    assert reasons["x"].why == "given at %x"
    assert reasons["d"].source == "d"
    assert "may not be chosen" in reasons["w"].why


def test_the_command_explains_one_value(tmp_path):
    (tmp_path / "chain.hlo").write_text(CHAIN)
    words = ["explain", str(tmp_path / "chain.hlo"), "sharding", "%d", "--json"]
    result = CliRunner().invoke(app, words)
    (row,) = json.loads(result.stdout)["rows"]
    assert (row["value"], row["verdict"], row["other"]) == ("d", ROWS, "d")


def test_elementwise_operations_are_looked_at_once_for_each_value_that_changes():
    lines = [f"  v{k + 1} = f32[8,16] tanh(v{k})" for k in range(100)]
    head = "  v0 = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}"
    body = "\n".join([head, *lines, "  ROOT r = f32[8,16] negate(v100)"])
    propagation = decided(parse(f"HloModule m, num_partitions=4\nENTRY e {{\n{body}\n}}\n"))
    assert 101 <= propagation.steps <= 3 * 101


def test_a_limit_that_is_reached_is_said():
    result = pass_named("sharding-propagation", limit=1).run(parse(CHAIN))
    assert result.fired["stopped-early"] == 1


def test_a_call_that_marks_a_value_says_which_dimensions_it_leaves_open():
    text = CHAIN.replace(
        "ROOT n = f32[8,32] negate(d)",
        'ROOT n = f32[8,32] custom-call(d), custom_call_target="Sharding", '
        "sharding={devices=[1,2,2]<=[4] last_tile_dim_replicate}, "
        'backend_config="unspecified_dims=[0]"',
    ).replace("devices=[4,1]<=[4]", "devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate")
    module, _ = propagated(text)
    assert sharding(module, "n") == "{devices=[2,2]<=[2,2]T(1,0)}"


REGION = """
HloModule m, num_partitions=4

ENTRY e {
  x = f32[8] parameter(0), sharding={devices=[4]<=[4]}
  i = f32[2] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
  c = f32[2] constant({1, 2})
  a = f32[2] add(i, c)
  o = f32[8] custom-call(a), custom_call_target="SPMDShardToFullShape",
    sharding={devices=[4]<=[4]}
  ROOT n = f32[8] negate(o)
}
"""


def test_a_region_that_is_partitioned_by_hand_stays_so():
    module, _ = propagated(REGION)
    assert sharding(module, "a") == sharding(module, "c") == "{manual}"
    assert sharding(module, "n") == "{devices=[4]<=[4]}"


def drawn_sharding(shape, rng: np.random.Generator) -> Sharding | None:
    """Eight devices, three axes: each cuts a dimension or nothing."""
    if not shape.is_array:
        return None
    order = rng.permutation(3)
    counts, axes = [1] * shape.rank, [[] for _ in range(shape.rank)]
    for axis in order[: rng.integers(0, 4)]:
        if shape.rank:
            d = int(rng.integers(shape.rank))
            counts[d] *= 2
            axes[d].append(axis)
    used = [a for part in axes for a in part]
    rest = [a for a in range(3) if a not in used]
    devices = np.arange(8).reshape(2, 2, 2).transpose(*used, *rest).reshape(-1).tolist()
    if not rest:
        return Sharding.tile(tuple(counts), tuple(devices))
    return Sharding.tile((*counts, 2 ** len(rest)), tuple(devices), ("replicated",))


SKIPPED = """parameter send send-done recv recv-done infeed outfeed""".split()


@pytest.mark.parametrize("opcode", sorted(set(OPS) - set(SKIPPED)))
def test_drawn_shardings_of_drawn_instances(opcode):
    """Valid for every value, kept where given, and nothing is left for a second time."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        module = draw_instance(opcode, seed)
        if module.replica_count * module.num_partitions > 1:
            continue
        module.num_partitions, module.use_spmd_partitioning = 8, True
        module.allow_spmd_sharding_propagation_to_parameters = (bool(seed % 2),)
        for i in module.entry.instructions:
            if rng.random() < 0.5 and i.opcode in ("parameter", opcode) and not i.shape.is_tuple:
                i.sharding = drawn_sharding(i.shape, rng)
        given = {i: i.sharding for i in module.instructions() if i.sharding is not None}
        before = show(module)
        pass_named("sharding-propagation").run(module)
        verify(module)
        free = module.allow_spmd_sharding_propagation_to_parameters[0]
        for i, was in given.items():
            if not (free and i.opcode == "parameter") and not i.is_root:
                assert i.sharding.same(was), before
        after = show(module)
        again = pass_named("sharding-propagation").run(module)
        if not free:
            assert not again.changed, before + after + show(module)


@pytest.mark.parametrize("devices", ["3,1,0,2", "[2,2]T(1,0)", "0,2,1,3"])
def test_shardings_of_a_mesh_in_any_order_count_by_its_axes(devices):
    """Devices that have the same tile are listed by number: what one of them says and the other
    came from orders that could not be compared, or had the axes of another order."""
    mesh = f"mesh['z'=2,'x'=2], device_ids=({devices})"
    module, _ = propagated(f"""HloModule m, num_partitions=4
ENTRY e {{
  p = f32[8,4] parameter(0), sharding={{{mesh}, [{{'z'}}, {{}}]}}
  q = f32[8,4] parameter(1), sharding={{{mesh}, [{{}}, {{'x'}}]}}
  s = f32[8,4] add(p, q)
  ROOT r = f32[8,4] negate(s), sharding={{replicated}}
}}""")
    total = next(i for i in module.entry if i.opcode == "add")
    stated = module.entry.parameters[0].sharding.text
    assert total.sharding.text == stated.replace("[{'z'}, {}]", "[{'z'}, {'x'}]")
