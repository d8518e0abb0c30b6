"""Shardings that a search proposes, other meshes, and what partitioning says of itself."""

import numpy as np
import pytest

import hloom
from hloom import api
from hloom.device.topology import topology_named
from hloom.interp.lockstep import evaluate_lockstep
from hloom.ir.module import Module
from hloom.passes.partition.explain import explained_partition
from hloom.passes.partition.other_meshes import other_meshes
from hloom.passes.partition.whole_program import partitioned, split_arguments
from hloom.types.mesh import MeshAxes

MESH = MeshAxes((("data", 4), ("model", 2)))
ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
LESS = (
    "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), "
    "direction=LT }\n"
)


def mlp(
    rows: int, width: int, marks: tuple[str, str, str] = ("", "", ""), tail: str = ""
) -> Module:
    x, w, v = [f", sharding={{mesh['data'=4,'model'=2], {m}}}" if m else "" for m in marks]
    partitions = ", num_partitions=8" if any(marks) else ""
    return hloom.parse(
        f"""HloModule m{partitions}
{ADD}{LESS}
ENTRY main {{
  x = f32[{rows},{width}] parameter(0){x}
  w = f32[{width},{2 * width}] parameter(1){w}
  v = f32[{2 * width},{width}] parameter(2){v}
  h = f32[{rows},{2 * width}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  t = f32[{rows},{2 * width}] tanh(h)
  y = f32[{rows},{width}] dot(t, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  {tail or f"ROOT r = f32[{rows},{width}] negate(y)"}
}}"""
    )


MEGATRON = ("[{'data'}, {}]", "[{}, {'model'}]", "[{'model'}, {}]")


def test_a_search_cuts_batches_and_weights_as_people_do() -> None:
    found = api.proposed_shardings(mlp(8192, 2048), MESH, topology_named("h100"), 30)
    assert found.is_finished and found.cost < 0.2 * found.cost_before
    text = [p.sharding.text for p in found.module.entry.parameters]
    assert text == [f"{{mesh['data'=4,'model'=2], {m}}}" for m in MEGATRON]
    assert set(found.decided) <= {(k, 0) for k in range(3)}


def test_what_the_program_states_is_kept() -> None:
    module = mlp(64, 16, ("", "[{'data'}, {}]", ""))
    found = api.proposed_shardings(module, MESH, topology_named("h100"), 10)
    assert found.module.entry.parameters[1].sharding.text.endswith("[{'data'}, {}]}")
    assert (1, 0) not in found.decided
    assert module.entry.parameters[0].sharding is None  # it is not changed


@pytest.mark.parametrize("rows", [64, 5])
def test_what_is_proposed_computes_the_same(rows: int) -> None:
    module = mlp(rows, 16)
    found = api.proposed_shardings(module, MESH, topology_named("h100"), 10).module
    arguments = hloom.random_arguments(module, seed=1)
    want = np.asarray(hloom.evaluate(module, *arguments).array)
    cut = partitioned(found)
    parts = evaluate_lockstep(cut, split_arguments(cut, arguments))
    from hloom.ir.values.sharding_data import join_array

    got = join_array([np.asarray(p.array) for p in parts], cut.spmd_output_sharding, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_mesh_of_other_devices_than_the_program_has_is_refused() -> None:
    with pytest.raises(hloom.HloError, match="8 partitions, the mesh has 4"):
        api.proposed_shardings(mlp(8, 8, MEGATRON), MeshAxes((("a", 4),)))


def test_other_meshes_cut_along_the_same_axes() -> None:
    found = {m.sizes: x for m, x in other_meshes(mlp(64, 16, MEGATRON))}
    assert set(found) == {(1, 8), (2, 4), (4, 2), (8, 1)}
    dims = {
        sizes: [p.shape.dims for p in partitioned(x).entry.parameters] for sizes, x in found.items()
    }
    assert dims[4, 2] == [(16, 16), (16, 16), (16, 16)]
    assert dims[8, 1] == [(8, 16), (16, 32), (32, 16)]
    assert dims[1, 8] == [(64, 16), (16, 4), (4, 16)]
    costs = api.costs_of_meshes(mlp(64, 16, MEGATRON), topology_named("h100"))
    times = [c.step.total_ns for _, c in costs]
    assert times == sorted(times) and len(times) == 4


def test_tiles_without_names_are_lists_of_axes_too() -> None:
    module = hloom.parse(
        """HloModule m, num_partitions=8
ENTRY e { x = f32[8,8] parameter(0), sharding={devices=[4,2]<=[8]}
  y = f32[8,8] parameter(1), sharding={devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}
  ROOT z = f32[8,8] add(x, y) }"""
    )
    found = {
        m.sizes: [p.sharding.text for p in x.entry.parameters] for m, x in other_meshes(module)
    }
    assert found[2, 4] == [
        "{devices=[2,4]<=[8]}",
        "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
    ]


def test_each_collective_has_a_reason() -> None:
    tail = """s = f32[64,16] sort(y), dimensions={0}, to_apply=less
  z = f32[] constant(0)
  ROOT r = f32[] reduce(s, z), dimensions={0,1}, to_apply=add"""
    explained = explained_partition(mlp(64, 16, MEGATRON, tail))
    rows = {
        (r.name, r.communication.kind): (r.communication.axis, r.why) for r in explained.inserted
    }
    axis, why = (
        rows["s", "all-reduce"] if ("s", "all-reduce") in rows else rows["s", "reduce-scatter"]
    )
    assert axis == "model" and "%y is summed" in why
    assert explained.bytes == sum([r.communication.total_bytes for r in explained.inserted])
    assert explained.bytes == api.partition_cost(explained.module).received_bytes


def test_what_is_computed_alike_is_told() -> None:
    module = hloom.parse(
        f"""HloModule m, num_partitions=4
{LESS}
ENTRY e {{ x = f32[64] parameter(0), sharding={{devices=[4]<=[4]}}
  ROOT s = f32[64] sort(x), dimensions={{0}}, to_apply=less }}"""
    )
    (row,) = explained_partition(module).replicated
    assert (row.name, row.opcode, row.bytes) == ("s", "sort", 192 + 16)
    assert "sort works along dimension 0" in row.reason


def test_shardings_say_how_many_partitions_there_are() -> None:
    text = """ENTRY e { x = f32[64] parameter(0), sharding={devices=[4]<=[4]}
  ROOT y = f32[64] negate(x), sharding={replicated} }"""
    module = hloom.parse(f"HloModule m\n{text}")
    explained = explained_partition(module)
    assert [r.communication.kind for r in explained.inserted] == ["all-gather"]
    assert module.num_partitions == 1, "the module itself stays as it was"


def test_nothing_to_partition_is_an_error() -> None:
    with pytest.raises(hloom.HloError, match="nothing to partition"):
        explained_partition(mlp(8, 8))
