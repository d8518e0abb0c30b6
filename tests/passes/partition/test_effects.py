"""What is done once, what each device does with its part, and what is refused."""

import numpy as np
import pytest

import hloom
from hloom.interp.lockstep import evaluate_lockstep
from hloom.ir.module import Module
from hloom.passes.partition.spmd_partitioner import is_partitionable
from hloom.passes.partition.whole_program import partitioned, split_arguments


def parsed(text: str, header: str = "", is_whole: bool = True) -> Module:
    module = hloom.parse(f"HloModule m, num_partitions=4{header}\n\nENTRY main {{\n{text}\n}}")
    module.use_spmd_partitioning = is_whole
    hloom.verify(module)
    return module


def cut(text: str, header: str = "") -> Module:
    made = partitioned(parsed(text, header))
    hloom.verify(made)
    return made


X = "  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}\n"


@pytest.mark.parametrize("opcode", ["rng", "state"])
def test_all_devices_have_the_numbers_that_the_first_one_drew(opcode: str) -> None:
    drawn = {
        "rng": "l = f32[] constant(0) h = f32[] constant(1)\n"
        "  r = f32[8,4] rng(l, h), distribution=rng_uniform",
        "state": "s = u64[2] rng-get-and-update-state(), delta=1\n  v = f32[2] convert(s)\n"
        "  r = f32[8,4] broadcast(v), dimensions={}".replace(
            "v), dimensions={}", "w), dimensions={}"
        ).replace("  r =", "  t = f32[1] slice(v), slice={[0:1]} w = f32[] reshape(t)\n  r ="),
    }[opcode]
    made = cut(f"{X}  {drawn}\n  ROOT y = f32[8,4] add(x, r), sharding={{replicated}}")
    assert any(i.opcode == "all-reduce" for i in made.instructions())
    zeros = np.zeros((8, 4), np.float32)
    parts = split_arguments(made, [hloom.Literal.of(zeros)])
    found = [np.asarray(r.array) for r in evaluate_lockstep(made, parts)]
    assert all(np.array_equal(found[0], other) for other in found[1:])
    assert opcode == "state" or len(np.unique(found[0])) > 20


@pytest.mark.parametrize(
    ("said", "device"), [(", sharding={{maximal device=2}, {maximal device=2}}", 2), ("", 0)]
)
def test_one_device_makes_a_call_that_has_effects(said: str, device: int) -> None:
    made = cut(
        X
        + f"""  c = (f32[8,4], s32[3]) custom-call(x), custom_call_target="effect",
    custom_call_has_side_effect=true{said}
  e = f32[8,4] get-tuple-element(c), index=0
  ROOT y = f32[8,4] add(x, e), sharding={{devices=[4,1]<=[4]}}"""
    )
    (call,) = [i for i in made.instructions() if i.opcode == "custom-call"]
    (conditional,) = [i for i in made.instructions() if i.opcode == "conditional"]
    assert call.parent is conditional.called[0] and call.operands[0].shape.dims == (8, 4)
    assert not [i for i in conditional.called[1].instructions if i.opcode == "custom-call"]
    tables = [i.attrs.literal.array for i in made.instructions() if i.opcode == "constant"]
    assert any(x.shape == (4,) and list(np.flatnonzero(x == 0)) == [device] for x in tables)


def test_in_a_region_the_first_device_of_each_place_makes_such_a_call() -> None:
    made = cut(
        """  x = f32[8,4] parameter(0), sharding={devices=[2,2]<=[4]}
  s = f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={devices=[2,2]<=[4]}
  m = f32[4,4] custom-call(s), custom_call_target="SPMDFullToShardShape",
    sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}}
  c = f32[4,4] custom-call(m), custom_call_target="effect", custom_call_has_side_effect=true
  t = f32[4,4] custom-call(c), custom_call_target="Sharding",
    sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}}
  ROOT y = f32[8,4] custom-call(t), custom_call_target="SPMDShardToFullShape",
    sharding={devices=[2,2]<=[4]}"""
    )
    (call,) = [i for i in made.instructions() if i.opcode == "custom-call"]
    assert call.operands[0].shape.dims == (4, 4)  # whole along the axis that is not manual
    (together,) = [i for i in made.instructions() if i.opcode == "all-reduce"]
    assert made.num_partitions == 4
    assert {frozenset(g) for g in together.attrs.replica_groups.groups} == {
        frozenset((0, 1)),
        frozenset((2, 3)),
    }


def test_one_device_reads_what_is_fed_to_it() -> None:
    made = cut(
        X
        + """  t = token[] after-all()
  i = (f32[8,4], token[]) infeed(t), sharding={{maximal device=1}, {maximal device=1}}
  d = f32[8,4] get-tuple-element(i), index=0
  k = token[] get-tuple-element(i), index=1
  o = token[] outfeed(d, k), outfeed_shape=f32[8,4], sharding={maximal device=3}
  ROOT y = f32[8,4] add(d, x), sharding={devices=[4,1]<=[4]}"""
    )
    fed = {i.opcode: i for i in made.instructions() if i.opcode in ("infeed", "outfeed")}
    assert fed["infeed"].shape.elements[0].dims == (8, 4)
    assert all({c.opcode for c in i.parent.callers} == {"conditional"} for i in fed.values())


@pytest.mark.parametrize(
    "sharding", ["{devices=[1,4]<=[4]}", "{{devices=[1,4]<=[4]}, {replicated}}"]
)
def test_feeds_are_cut_as_they_say(sharding: str) -> None:
    made = cut(
        X
        + f"""  t = token[] after-all()
  i = (f32[8,4], token[]) infeed(t), sharding={{{{devices=[4,1]<=[4]}}, {{replicated}}}}
  d = f32[8,4] get-tuple-element(i), index=0
  k = token[] get-tuple-element(i), index=1
  y = f32[8,4] add(d, x)
  o = token[] outfeed(y, k), outfeed_shape=f32[8,4], sharding={sharding}
  ROOT z = f32[8,4] negate(y), sharding={{devices=[4,1]<=[4]}}"""
    )
    by_opcode = {i.opcode: i for i in made.instructions()}
    assert by_opcode["infeed"].shape.elements[0].dims == (2, 4)
    assert by_opcode["outfeed"].operands[0].shape.dims == (8, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "t = token[] after-all()\n  i = (f32[8,4], token[]) infeed(t)\n"
            "  ROOT d = f32[8,4] get-tuple-element(i), index=0",
            "nothing says which part",
        ),
        (
            "t = token[] after-all()\n  i = (f32[6,4], token[]) infeed(t), "
            "sharding={{devices=[4,1]<=[4]}, {replicated}}\n"
            "  ROOT d = f32[6,4] get-tuple-element(i), index=0",
            "not the same number",
        ),
        (
            "t = token[] after-all()\n"
            "  s = (f32[8,4], u32[], token[]) send(x, t), channel_id=1, is_host_transfer=true\n"
            "  d = token[] send-done(s), channel_id=1, is_host_transfer=true\n"
            "  ROOT y = f32[8,4] negate(x)",
            "every device would have them",
        ),
    ],
)
def test_effects_that_nobody_is_given_are_refused(text: str, message: str) -> None:
    with pytest.raises(hloom.HloError, match=message):
        cut(f"{X}  {text}")


def test_calls_and_copies_in_halves_are_done_at_their_start() -> None:
    module = hloom.parse(
        """HloModule m, num_partitions=4

wrapped { p = f32[8,4] parameter(0) ROOT n = f32[8,4] negate(p) }

fused { p = f32[8,4] parameter(0) ROOT e = f32[8,4] exponential(p) }

ENTRY main {
  x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}
  s = ((f32[8,4]), f32[8,4], u32[]) async-start(x), calls=wrapped
  d = f32[8,4] async-done(s)
  c = (f32[8,4], f32[8,4], u32[]) copy-start(d)
  e = f32[8,4] copy-done(c)
  ROOT f = f32[8,4] fusion(e), kind=kLoop, calls=fused, sharding={devices=[4,1]<=[4]}
}"""
    )
    module.use_spmd_partitioning = True
    made = partitioned(module)
    hloom.verify(made)
    assert [i.opcode for i in made.entry.instructions] == ["parameter", "negate", "exponential"]
    assert made.entry.root.shape.dims == (2, 4)


ALIAS = (
    ", input_output_alias={ {}: (0, {}, %s-alias) }"
    ", entry_computation_layout={(f32[8,4]{0,1})->f32[8,4]{0,1}}"
)


def test_what_is_returned_in_place_and_layouts_of_callers_stay() -> None:
    same = "  ROOT y = f32[8,4] negate(x), sharding={devices=[4,1]<=[4]}"
    other = "  ROOT y = f32[8,4] negate(x), sharding={devices=[1,4]<=[4]}"
    made = cut(X + same, ALIAS % "must")
    assert made.input_output_alias.entries
    assert made.entry_layout is not None
    assert [s.dims for s in (*made.entry_layout.parameters, made.entry_layout.result)] == [
        (2, 4),
        (2, 4),
    ]
    layout = made.entry_layout.result.layout
    assert layout is not None and layout.minor_to_major == (0, 1)
    assert not cut(X + other, ALIAS % "may").input_output_alias
    with pytest.raises(hloom.HloError, match="in place of parameter 0"):
        cut(X + other, ALIAS % "must")


def test_only_a_program_of_whole_arrays_is_partitioned_by_compiling() -> None:
    text = X + "  ROOT y = f32[8,4] negate(x), sharding={devices=[4,1]<=[4]}"
    whole, parts = parsed(text), parsed(text, is_whole=False)
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    found = hloom.compile(parts).run_devices([[x]] * 4)
    assert all(np.asarray(r).shape == (8, 4) for r in found)
    found = hloom.compile(whole).run_devices([[x[2 * d : 2 * d + 2]] for d in range(4)])
    np.testing.assert_array_equal(np.concatenate([np.asarray(r) for r in found]), -x)
    made = partitioned(whole)
    assert not is_partitionable(made)
    assert not is_partitionable(parsed(text, ", is_scheduled=true"))


def test_run_time_sizes_are_computed_whole() -> None:
    made = cut(
        X
        + """  n = s32[] constant(5)
  d = f32[<=8,4] set-dimension-size(x, n), dimensions={0}
  z = f32[] constant(0)
  w = f32[4,4] constant({{1,0,0,0},{0,1,0,0},{0,0,1,0},{0,0,0,1}})
  m = f32[<=8,4] dot(d, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  k = s32[] get-dimension-size(m), dimensions={0}
  f = f32[] convert(k)
  b = f32[8,4] broadcast(f), dimensions={}
  ROOT y = f32[8,4] add(x, b), sharding={devices=[4,1]<=[4]}"""
    )
    x = hloom.Literal.of(np.zeros((8, 4), np.float32))
    for r in evaluate_lockstep(made, split_arguments(made, [x])):
        np.testing.assert_array_equal(np.asarray(r.array), np.full((2, 4), 5, np.float32))


@pytest.mark.parametrize("how", ["copied", "started"])
def test_tuples_are_copied_with_their_parts_as_they_stand(how: str) -> None:
    """`hloom partition` ended in a ValueError."""
    pair = "(f32[8,4], f32[4])"
    copies = {
        "copied": f"c = {pair} copy(t)",
        "started": f"s = ({pair}, {pair}, u32[]) copy-start(t) c = {pair} copy-done(s)",
    }
    text = (
        f"{X}  v = f32[4] parameter(1) t = {pair} tuple(x, v) {copies[how]}\n"
        "  g = f32[8,4] get-tuple-element(c), index=0"
        "  ROOT y = f32[8,4] negate(g), sharding={replicated}"
    )
    x, v = np.arange(32, dtype=np.float32).reshape(8, 4), np.zeros(4, np.float32)
    made = cut(text)
    parts = evaluate_lockstep(made, split_arguments(made, [hloom.Literal.of(a) for a in (x, v)]))
    for part in parts:
        np.testing.assert_array_equal(np.asarray(part.array), -x)
