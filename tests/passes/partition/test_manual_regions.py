"""Regions that a program cuts by itself, in a program that is partitioned."""

import numpy as np
import pytest

import hloom
from hloom.interp.lockstep import evaluate_lockstep
from hloom.ir.module import Module
from hloom.ir.values.sharding_data import join_array
from hloom.passes.partition.whole_program import partitioned, split_arguments

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n\n"


def cut(text: str, partitions: int = 4) -> Module:
    module = hloom.parse(f"HloModule m, num_partitions={partitions}\n\n{text}")
    module.use_spmd_partitioning = True
    hloom.verify(module)
    made = partitioned(module)
    hloom.verify(made)
    return made


def ran(module: Module, *arguments: np.ndarray) -> np.ndarray:
    """The whole result, the same in lockstep and natively."""
    parts = split_arguments(module, [hloom.Literal.of(a) for a in arguments])
    lockstep = [np.asarray(r.array) for r in evaluate_lockstep(module, parts)]
    arrays = [[np.asarray(x.array) for x in each] for each in parts]
    native = [np.asarray(r) for r in hloom.compile(module).run_devices(arrays)]
    for a, b in zip(lockstep, native, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    dims = lockstep[0].shape
    sharding = module.spmd_output_sharding
    if sharding is not None and sharding.tiled().kind == "tiled":
        tiles = sharding.tiled().tile_dims
        dims = tuple([n * t for n, t in zip(dims, tiles)])
    return join_array(lockstep, sharding, dims)


X = np.arange(32, dtype=np.float32).reshape(8, 4)


def test_a_region_works_on_the_part_of_each_device() -> None:
    made = cut(
        ADD
        + """ENTRY main {
  x = f32[8,4] parameter(0), sharding={devices=[1,4]<=[4]}
  s = f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
  l = f32[2,4] custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={manual}
  r = f32[2,4] all-reduce(l), channel_id=1, replica_groups={{0,1,2,3}},
    use_global_device_ids=true, to_apply=add, sharding={manual}
  p = u32[] partition-id(), sharding={manual}
  f = f32[] convert(p), sharding={manual}
  b = f32[2,4] broadcast(f), dimensions={}, sharding={manual}
  y = f32[2,4] add(r, b), sharding={manual}
  ROOT w = f32[8,4] custom-call(y), custom_call_target="SPMDShardToFullShape",
    sharding={devices=[4,1]<=[4]}
}"""
    )
    total = X.reshape(4, 2, 4).sum(0)
    np.testing.assert_array_equal(ran(made, X), np.concatenate([total + k for k in range(4)]))


SUBGROUP = """ENTRY main {{
  x = f32[8,4] parameter(0), sharding={{devices=[{tiles}]<=[4]{rest}}}
  l = f32[4,4] custom-call(x), custom_call_target="SPMDFullToShardShape",
    sharding={{devices=[1,1,2,2]<=[4] last_tile_dims={{manual, replicated}}}}
  c = f32[] constant(0)
  t = f32[4] reduce(l, c), dimensions={{1}}, to_apply=add
  b = f32[4,4] broadcast(t), dimensions={{0}}
  r = f32[4,4] reverse(l), dimensions={{0}}
  y = f32[4,4] add(b, r)
  ROOT w = f32[8,4] custom-call(y), custom_call_target="SPMDShardToFullShape",
    sharding={{devices=[2,1,2]<=[4] last_tile_dim_replicate}}
}}"""


@pytest.mark.parametrize(
    ("tiles", "rest"), [("2,2", ""), ("2,1,2", " last_tile_dim_replicate"), ("4,1", "")]
)
def test_other_axes_are_cut_inside_of_a_region_along_some(tiles: str, rest: str) -> None:
    made = cut(ADD + SUBGROUP.format(tiles=tiles, rest=rest))
    halves = [X[:4], X[4:]]
    want = np.concatenate([h.sum(1)[:, None] + h[::-1] for h in halves])
    np.testing.assert_array_equal(ran(made, X), want)


def test_resharding_inside_of_a_region_stays_among_devices_of_one_place() -> None:
    made = cut(
        """ENTRY main {
  x = f32[8,4] parameter(0), sharding={devices=[4,2]<=[8]}
  l = f32[4,4] custom-call(x), custom_call_target="SPMDFullToShardShape",
    sharding={devices=[2,2,2]<=[2,2,2]T(1,2,0) last_tile_dims={manual}}
  n = f32[4,4] negate(l), sharding={devices=[2,2,2]<=[2,2,2]T(2,1,0) last_tile_dims={manual}}
  ROOT w = f32[8,4] custom-call(n), custom_call_target="SPMDShardToFullShape",
    sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
}""",
        8,
    )
    assert any(i.opcode == "collective-permute" for i in made.instructions())
    np.testing.assert_array_equal(ran(made, X), -X)


@pytest.mark.parametrize(
    ("outside", "inside"),
    [
        ("devices=[2,3]<=[6] last_tile_dim_replicate",
         "devices=[3,2]<=[2,3]T(1,0) last_tile_dims={manual}"),
        ("devices=[6]<=[6]", "devices=[1,2,3]<=[6] last_tile_dims={manual, replicated}"),
    ],
)  # fmt: skip
def test_parts_that_other_axes_cut_unevenly_are_whole_at_the_border(outside, inside) -> None:
    """Three devices have two elements of a part; counted over the whole four, the third would have
    one of the next part."""
    made = cut(
        f"""ENTRY main {{
  x = f32[4] parameter(0), sharding={{{outside}}}
  l = f32[2] custom-call(x), custom_call_target="SPMDFullToShardShape",
    sharding={{devices=[1,2,3]<=[6] last_tile_dims={{manual, replicated}}}}
  n = f32[2] negate(l), sharding={{{inside}}}
  ROOT w = f32[4] custom-call(n), custom_call_target="SPMDShardToFullShape",
    sharding={{devices=[2,3]<=[6] last_tile_dim_replicate}}
}}""",
        6,
    )
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(ran(made, x), -x)


def test_tiles_are_not_cut_along_manual_axes_to_be_handed_on() -> None:
    made = cut(
        """ENTRY main {
  x = f32[8,8] parameter(0), sharding={devices=[2,2,2]<=[8] last_tile_dim_replicate}
  l = f32[4,8] custom-call(x), custom_call_target="SPMDFullToShardShape",
    sharding={devices=[1,2,2,2]<=[2,2,2]T(1,0,2) last_tile_dims={manual, replicated}}
  n = f32[4,8] negate(l), sharding={devices=[2,2,2]<=[2,2,2]T(1,2,0) last_tile_dims={manual}}
  ROOT w = f32[8,8] custom-call(n), custom_call_target="SPMDShardToFullShape",
    sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
}""",
        8,
    )
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    np.testing.assert_array_equal(ran(made, x), -x)


def test_a_loop_in_a_region_from_a_constant_on() -> None:
    made = cut(
        """cond { s = (s32[], f32[2,4]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3) ROOT c = pred[] compare(i, n), direction=LT }

body { s = (s32[], f32[2,4]) parameter(0) i = s32[] get-tuple-element(s), index=0
  x = f32[2,4] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  p = u32[] partition-id() f = f32[] convert(p) b = f32[2,4] broadcast(f), dimensions={}
  y = f32[2,4] add(x, b) ROOT t = (s32[], f32[2,4]) tuple(j, y) }

ENTRY main {
  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  l = f32[2,4] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
  zero = s32[] constant(0) z = f32[] constant(0) o = f32[2,4] broadcast(z), dimensions={}
  s = (s32[], f32[2,4]) tuple(zero, o)
  w = (s32[], f32[2,4]) while(s), condition=cond, body=body
  e = f32[2,4] get-tuple-element(w), index=1
  y = f32[2,4] add(e, l)
  ROOT r = f32[8,4] custom-call(y), custom_call_target="SPMDShardToFullShape",
    sharding={devices=[4,1]<=[4]}
}"""
    )
    np.testing.assert_array_equal(ran(made, X), X + 3 * np.repeat(np.arange(4), 2)[:, None])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            """x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  ROOT l = f32[2,4] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}""",
            "what each device has by itself",
        ),
        (
            """x = f32[8,4] parameter(0), sharding={devices=[1,4]<=[4]}
  l = f32[2,4] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
  ROOT w = f32[8,4] custom-call(l), custom_call_target="SPMDShardToFullShape",
    sharding={devices=[4,1]<=[4]}""",
            "dimension 0 is 8 outside and 2 inside",
        ),
        (
            """x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  ROOT w = f32[32,4] custom-call(x), custom_call_target="SPMDShardToFullShape",
    sharding={devices=[4,1]<=[4]}""",
            "not in a region",
        ),
        (
            """x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  r = f32[32,4] all-gather(x), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0},
    use_global_device_ids=true
  l = f32[2,4] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
  w = f32[8,4] custom-call(l), custom_call_target="SPMDShardToFullShape",
    sharding={devices=[4,1]<=[4]}
  ROOT y = (f32[8,4], f32[32,4]) tuple(w, r)""",
            "nothing says what it means",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(text: str, message: str) -> None:
    with pytest.raises(hloom.HloError, match=message):
        cut(f"ENTRY main {{\n  {text}\n}}")


def test_what_a_loop_makes_of_nothing_of_the_region_is_the_same_at_all_its_places() -> None:
    made = cut(
        """test {
  s = (s32[], f32[2,4]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  c = s32[] constant(3)
  ROOT r = pred[] compare(k, c), direction=LT
}

repeated {
  s = (s32[], f32[2,4]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  v = f32[2,4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(k, one)
  f = f32[] convert(next)
  b = f32[2,4] broadcast(f), dimensions={}
  y = f32[2,4] add(v, b)
  ROOT r = (s32[], f32[2,4]) tuple(next, y)
}

ENTRY main {
  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  l = f32[2,4] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual}
  zero = s32[] constant(0)
  i = f32[2,4] iota(), iota_dimension=0
  first = (s32[], f32[2,4]) tuple(zero, i)
  loop = (s32[], f32[2,4]) while(first), condition=test, body=repeated
  v = f32[2,4] get-tuple-element(loop), index=1
  a = f32[2,4] custom-call(v), custom_call_target="Sharding", sharding={manual}
  m = f32[2,4] custom-call(l), custom_call_target="Sharding", sharding={manual}
  o = f32[8,4] custom-call(a), custom_call_target="SPMDShardToFullShape",
    sharding={devices=[4,1]<=[4]}
  w = f32[8,4] custom-call(m), custom_call_target="SPMDShardToFullShape",
    sharding={devices=[4,1]<=[4]}
  ROOT r = f32[8,4] add(o, w), sharding={devices=[4,1]<=[4]}
}"""
    )
    np.testing.assert_array_equal(ran(made, X), X + 6 + np.tile([0, 1], 4)[:, None])


SHUFFLED = "mesh['z'=2,'x'=2], device_ids=(3,1,0,2)"


def test_an_axis_of_a_mesh_that_lists_devices_in_any_order_is_by_hand() -> None:
    """Tiles that several devices have list them by number: most of these looked as if the mesh
    began with device 1, and its axes were none of the grid's."""
    calls = "\n".join(
        f"  n{k} = f32[8,4] negate({f'n{k - 1}' if k else 'x'}), "
        f"sharding={{{SHUFFLED}, [{{}}, {{'z'}}]}}"
        for k in range(4)
    )
    made = cut(f"""ENTRY main {{
  x = f32[8,4] parameter(0), sharding={{{SHUFFLED}, [{{}}, {{'z'}}]}}
{calls}
  s = f32[8,4] custom-call(n3), custom_call_target="Sharding",
    sharding={{{SHUFFLED}, [{{'x'}}, {{'z'}}]}}
  l = f32[4,4] custom-call(s), custom_call_target="SPMDFullToShardShape",
    sharding={{{SHUFFLED}, [{{}}, {{'z'}}], manual={{'x'}}}}
  r = f32[4,4] reverse(l), dimensions={{0}},
    sharding={{{SHUFFLED}, [{{}}, {{'z'}}], manual={{'x'}}}}
  ROOT w = f32[8,4] custom-call(r), custom_call_target="SPMDShardToFullShape",
    sharding={{{SHUFFLED}, [{{'x'}}, {{'z'}}]}}
}}""")
    np.testing.assert_array_equal(ran(made, X), X.reshape(2, 4, 4)[:, ::-1].reshape(8, 4))


@pytest.mark.parametrize("into", ["[4,1]0,3,1,2", "[2,2]3,0,1,2"])
def test_tiles_of_a_region_that_count_by_no_axes_are_handed_on(into: str) -> None:
    """A region got the tiles of another sharding without a word."""
    rows, columns = (8 // int(into[1]), 4 // int(into[3]))
    made = cut(f"""ENTRY main {{
  x = f32[8,4] parameter(0), sharding={{devices=[4,1]<=[4]}}
  n = f32[8,4] negate(x), sharding={{devices=[4,1]<=[4]}}
  s = f32[8,4] custom-call(n), custom_call_target="Sharding", sharding={{devices={into}}}
  l = f32[{rows},{columns}] custom-call(s), custom_call_target="SPMDFullToShardShape",
    sharding={{manual}}
  r = f32[{rows},{columns}] reverse(l), dimensions={{0}}, sharding={{manual}}
  w = f32[8,4] custom-call(r), custom_call_target="SPMDShardToFullShape",
    sharding={{devices={into}}}
  ROOT y = f32[8,4] negate(w), sharding={{devices=[4,1]<=[4]}}
}}""")
    tiles = X.reshape(8 // rows, rows, 4)[:, ::-1]
    np.testing.assert_array_equal(ran(made, X), tiles.reshape(8, 4))
