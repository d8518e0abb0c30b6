"""Partitioned programs: what communicates what, and that they compute what the whole one does."""

from math import prod

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import UnsupportedError
from hloom.interp.lockstep import evaluate_lockstep
from hloom.ir.module import Module
from hloom.ir.values.sharding_data import join_array
from hloom.passes.partition.spmd_partitioner import is_partitionable
from hloom.passes.partition.whole_program import partitioned, split_arguments
from tests.fuzz.partition_programs import check

COLLECTIVES = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "reduce-scatter",
)


def parsed(text: str, partitions: int = 4) -> Module:
    module = hloom.parse(f"HloModule m, num_partitions={partitions}\n\n{text}")
    module.use_spmd_partitioning = True
    return module


def traffic(module: Module) -> dict[str, int]:
    """Elements of the results of collectives, by kind."""
    found: dict[str, int] = {}
    for i in module.instructions():
        if i.opcode in COLLECTIVES:
            found[i.opcode] = found.get(i.opcode, 0) + prod(i.shape.dims)
    return found


def cut_and_compared(text: str, partitions: int = 4) -> Module:
    """The partitioned module, after running it beside the whole one."""
    module = parsed(text, partitions)
    arguments = hloom.random_arguments(module, seed=1)
    want = hloom.evaluate(module, *arguments)
    cut = partitioned(module)
    hloom.verify(cut)
    found = evaluate_lockstep(cut, split_arguments(cut, arguments))
    sharding = cut.spmd_output_sharding
    leaves = [list(r.leaves()) for r in found]
    for k, leaf in enumerate(want.leaves()):
        own = None if sharding is None else sharding.for_leaf(k)
        joined = join_array([np.asarray(x[k].array) for x in leaves], own, leaf.array.shape)
        np.testing.assert_allclose(joined, leaf.array, rtol=1e-5, atol=1e-5)
    return cut


@pytest.mark.parametrize("seed", range(48))
def test_drawn_programs(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(5000, 5004))
def test_drawn_programs_natively(seed: int) -> None:
    check(seed, native=True)


ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"


def test_a_tensor_parallel_mlp_reduces_once() -> None:
    cut = cut_and_compared(
        """ENTRY main {
  x = f32[8,16] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  w = f32[16,32] parameter(1), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  v = f32[32,16] parameter(2), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  h = f32[8,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[8,32] tanh(h)
  ROOT y = f32[8,16] dot(t, v), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
}"""
    )
    assert traffic(cut) == {"all-reduce": 4 * 16}


def test_what_is_read_in_shards_is_reduced_in_shards() -> None:
    cut = cut_and_compared(
        """ENTRY main {
  x = f32[8,16] parameter(0), sharding={devices=[1,4]<=[4]}
  w = f32[16,8] parameter(1), sharding={devices=[4,1]<=[4]}
  ROOT y = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    sharding={devices=[4,1]<=[4]}
}"""
    )
    assert traffic(cut) == {"reduce-scatter": 2 * 8}


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("devices=[4,1]<=[4]", "devices=[1,4]<=[4]", "all-to-all"),
        ("devices=[4,1]<=[4]", "replicated", "all-gather"),
        ("replicated", "devices=[4,1]<=[4]", None),
        ("devices=[4,1]<=[4]", "devices=[4,1]<=[2,2]T(1,0)", "collective-permute"),
        ("devices=[2,2]<=[4]", "devices=[2,2]<=[2,2]T(1,0)", "collective-permute"),
        ("devices=[4,1]0,1,3,2", "devices=[4,1]<=[4]", "collective-permute"),
        (
            "devices=[2,1,2]<=[4] last_tile_dim_replicate",
            "devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate",
            "collective-permute",
        ),
        ("devices=[2,1,2]<=[4] last_tile_dim_replicate", "devices=[2,2]<=[4]", None),
    ],
)
@pytest.mark.parametrize("size", [8, 6, 5, 1])
def test_resharding_takes_the_fewest_bytes(
    before: str, after: str, kind: str | None, size: int
) -> None:
    cut = cut_and_compared(
        f"""ENTRY main {{
  x = f32[{size},8] parameter(0), sharding={{{before}}}
  ROOT y = f32[{size},8] negate(x), sharding={{{after}}}
}}"""
    )
    if size == 8:
        assert list(traffic(cut)) == ([kind] if kind else [])


def test_calls_with_like_shardings_share_what_they_call() -> None:
    text = """g {{ p = s32[8,2] parameter(0), sharding={{devices=[2,2]<=[4]}}
  ROOT n = s32[8,2] negate(p), sharding={{devices=[2,2]<=[4]}} }}

ENTRY main {{
  x = s32[8,2] parameter(0), sharding={{devices=[2,2]<=[4]}}
  y = s32[8,2] parameter(1), sharding={{{}}}
  a = s32[8,2] call(x), to_apply=g, sharding={{devices=[2,2]<=[4]}}
  b = s32[8,2] call(y), to_apply=g, sharding={{devices=[2,2]<=[4]}}
  ROOT t = (s32[8,2], s32[8,2]) tuple(a, b),
    sharding={{{{devices=[2,2]<=[4]}}, {{devices=[2,2]<=[4]}}}}
}}"""
    for sharding, parameters in (
        ("devices=[2,2]<=[4]", [(4, 1)]),
        ("devices=[4,1]<=[4]", [(2, 2), (4, 1)]),
    ):
        module = parsed(text.format(sharding))
        hloom.pass_named("spmd-partitioner").run(module)
        hloom.verify(module)
        callees = {i.called[0] for i in module.instructions() if i.opcode == "call"}
        assert sorted(c.parameters[0].shape.dims for c in callees) == parameters


def test_a_splat_is_broadcast_in_parts() -> None:
    cut = cut_and_compared(
        """ENTRY main {
  c = f32[8,4] constant({...})
  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  ROOT y = f32[8,4] add(x, c), sharding={devices=[4,1]<=[4]}
}""".replace("constant({...})", "constant({" + ",".join(["{2,2,2,2}"] * 8) + "})")
    )
    assert not traffic(cut)
    assert all(i.shape.dims in ((), (2, 4)) for i in cut.entry.instructions)


def test_a_lookup_in_a_cut_table_sums_what_devices_find() -> None:
    cut = cut_and_compared(
        """ENTRY main {
  t = f32[16,8] parameter(0), sharding={devices=[4,1]<=[4]}
  i = s32[3] parameter(1), sharding={replicated}
  ROOT y = f32[3,8] gather(t, i), offset_dims={1}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}, sharding={replicated}
}"""
    )
    assert traffic(cut) == {"all-reduce": 24}


def test_random_bits_are_those_of_one_device() -> None:
    cut_and_compared(
        """ENTRY main {
  s = u64[2] parameter(0), sharding={replicated}
  r = (u64[2], u32[8,8]) rng-bit-generator(s), algorithm=rng_philox
  b = u32[8,8] get-tuple-element(r), index=1, sharding={devices=[4,1]<=[4]}
  ROOT f = f32[8,8] convert(b), sharding={devices=[4,1]<=[4]}
}"""
    )


def test_what_runs_on_each_partition_already_is_left_alone() -> None:
    module = parsed(
        ADD
        + """ENTRY main {
  x = f32[8] parameter(0), sharding={devices=[4]<=[4]}
  ROOT y = f32[8] all-reduce(x), channel_id=1, replica_groups={{0,1,2,3}},
    use_global_device_ids=true, to_apply=add
}"""
    )
    assert not is_partitionable(module)
    assert not hloom.pass_named("spmd-partitioner").run(module).changed
    assert partitioned(module) is module


def test_a_second_run_changes_nothing() -> None:
    module = parsed(
        """ENTRY main {
  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  ROOT y = f32[8,4] negate(x), sharding={devices=[1,4]<=[4]}
}"""
    )
    assert hloom.pass_named("spmd-partitioner").run(module).changed
    assert not hloom.pass_named("spmd-partitioner").run(module).changed


def test_compiling_partitions_what_has_shardings() -> None:
    module = parsed(
        """ENTRY main {
  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  ROOT y = f32[8,4] negate(x), sharding={devices=[1,4]<=[4]}
}"""
    )
    exe = hloom.compile(module)
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    found = exe.run_devices([[x[2 * d : 2 * d + 2]] for d in range(4)])
    for d in range(4):
        np.testing.assert_array_equal(np.asarray(found[d]), -x[:, d : d + 1])


def test_an_argument_of_run_time_size_is_whole_whatever_it_says() -> None:
    cut = cut_and_compared(
        """ENTRY main {
  x = f32[4,<=3] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  y = f32[8] parameter(1), sharding={devices=[4]<=[4]}
  n = s32[] get-dimension-size(x), dimensions={1}
  f = f32[] convert(n)
  b = f32[8] broadcast(f), dimensions={}
  ROOT z = f32[8] add(b, y), sharding={devices=[4]<=[4]}
}"""
    )
    assert [s.text for s in cut.spmd_parameters_shardings] == [
        "{replicated}",
        "{devices=[4]<=[4]}",
    ]


def test_devices_that_decide_alike_may_meet_in_a_branch() -> None:
    """By hand along the first axis, which decides; the product meets along the second."""
    inside = "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}}"
    text = f"""
product {{
  p = f32[4,4] parameter(0)
  ROOT d = f32[4,4] dot(p, p), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
}}

other {{
  p = f32[4,4] parameter(0)
  ROOT n = f32[4,4] negate(p)
}}

ENTRY main {{
  x = f32[8,4] parameter(0), sharding={{devices=[2,2]<=[4]}}
  k = s32[2] parameter(1), sharding={{devices=[2,2]<=[4] last_tile_dim_replicate}}
  xm = f32[4,4] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={inside}
  km = s32[1] custom-call(k), custom_call_target="SPMDFullToShardShape",
    sharding={{devices=[1,2,2]<=[4] last_tile_dims={{manual, replicated}}}}
  s = s32[] reshape(km)
  c = f32[4,4] conditional(s, xm, xm), branch_computations={{product, other}}
  ROOT y = f32[8,4] custom-call(c), custom_call_target="SPMDShardToFullShape",
    sharding={{devices=[2,1,2]<=[4] last_tile_dim_replicate}}
}}"""
    module = parsed(text)
    cut = partitioned(module)
    assert traffic(cut)
    x, _ = hloom.random_arguments(module, seed=1)
    a, k = np.asarray(x.array), np.array([1, 0], np.int32)
    devices = [[a[4 * r :][:4, 2 * c :][:, :2], k[r : r + 1]] for r in (0, 1) for c in (0, 1)]
    results = [np.asarray(r.array) for r in evaluate_lockstep(cut, devices)]
    np.testing.assert_allclose(results[0], -a[:4], rtol=1e-6)
    np.testing.assert_allclose(results[3], a[4:] @ a[4:].T, rtol=1e-5)
    again = [np.asarray(r) for r in hloom.compile(cut).run_devices(devices)]
    for x, y in zip(results, again, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)


def test_windows_of_one_element_select_it() -> None:
    """Cut along their padding, nothing is left that a window could choose from."""
    cut_and_compared(
        ADD
        + """
choose { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }

ENTRY main {
  x = f32[4] parameter(0), sharding={devices=[3]<=[3]}
  u = f32[5] parameter(1)
  z = f32[] constant(0)
  ROOT y = f32[4] select-and-scatter(x, u, z), window={size=1 pad=1_0}, select=choose,
    scatter=add, sharding={devices=[3]<=[3]}
}""",
        3,
    )


@pytest.mark.parametrize(
    ("tiles", "said"),
    [
        ("[2,1]<=[2]", "leaves devices out"),
        ("[4,2]<=[2,4]T(1,0)", "more tiles than there are devices"),
    ],
)
@pytest.mark.parametrize("side", ["parameter", "result"])
def test_shardings_for_another_number_of_devices_are_refused(side: str, tiles: str, said: str):
    some, rest = f", sharding={{devices={tiles}}}", ", sharding={replicated}"
    x, y = (some, rest) if side == "parameter" else (rest, some)
    module = parsed(
        f"""ENTRY e {{
          x = f32[8,6] parameter(0){x}
          ROOT y = f32[8,6] negate(x){y}
        }}""",
        5,
    )
    with pytest.raises(UnsupportedError, match=said):
        hloom.pass_named("spmd-partitioner").run(module)
