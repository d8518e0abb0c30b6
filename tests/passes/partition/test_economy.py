"""Few bytes: other dimensions cut instead, calls apart, results as they came, batches of calls."""

import numpy as np
import pytest

import hloom
from hloom.interp.lockstep import evaluate_lockstep
from hloom.ir.module import Module
from hloom.ir.values.sharding_data import join_array
from hloom.passes.partition.reshard import neutral_number
from hloom.passes.partition.whole_program import partitioned, split_arguments
from hloom.types.dtype import dtype
from tests.fuzz.partition_programs import check
from tests.passes.partition.test_partitioner import cut_and_compared, parsed, traffic

LESS = (
    "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), "
    "direction=LT }\n"
)
CUT, KEPT = "sharding={devices=[1,4]<=[4]}", "sharding={devices=[4,1]<=[4]}"


def sort(rows: int, mark: str = CUT) -> str:
    return f"""{LESS}ENTRY main {{
  x = f32[{rows},8] parameter(0), {CUT}
  ROOT s = f32[{rows},8] sort(x), dimensions={{1}}, to_apply=less, {mark}
}}"""


def test_a_sort_along_a_cut_dimension_cuts_another() -> None:
    cut = cut_and_compared(sort(8))
    assert traffic(cut) == {"all-to-all": 2 * 16}
    assert traffic(cut_and_compared(sort(8, KEPT))) == {"all-to-all": 16}


def test_where_no_other_dimension_can_be_cut_evenly_it_is_gathered() -> None:
    assert traffic(cut_and_compared(sort(7))).keys() == {"all-gather"}


SHARED = """pick { x = f32[4,8] parameter(0)
  ROOT s = f32[1,8] slice(x), slice={[1:2], [0:8]} }

ENTRY main {
  x = f32[4,8] parameter(0), sharding={devices=[1,4]<=[4]}
  y = f32[4,8] parameter(1), sharding={replicated}
  a = f32[1,8] call(x), to_apply=pick
  b = f32[1,8] call(y), to_apply=pick
  ROOT t = (f32[1,8], f32[1,8]) tuple(a, b), sharding={{devices=[1,4]<=[4]}, {replicated}}
}"""


def test_calls_of_one_function_are_cut_each_in_its_way() -> None:
    cut = cut_and_compared(SHARED)
    assert traffic(cut) == {}


def free(text: str) -> Module:
    module = parsed(text)
    module.allow_spmd_sharding_propagation_to_output = (True,)
    return module


@pytest.mark.parametrize(("rows", "want"), [(8, "{devices=[4,1]<=[4]}"), (7, "{replicated}")])
def test_a_result_of_which_nothing_is_said_stays_where_it_is(rows: int, want: str) -> None:
    module = free(sort(rows).replace(f", to_apply=less, {CUT}", ", to_apply=less"))
    arguments = hloom.random_arguments(module, seed=3)
    whole = np.asarray(hloom.evaluate(module, *arguments).array)
    cut = partitioned(module)
    assert cut.spmd_output_sharding is not None and cut.spmd_output_sharding.text == want
    parts = evaluate_lockstep(cut, split_arguments(cut, arguments))
    joined = join_array([np.asarray(p.array) for p in parts], cut.spmd_output_sharding, whole.shape)
    np.testing.assert_array_equal(joined, whole)


def test_leaves_of_which_something_is_said_keep_it() -> None:
    module = free(SHARED.replace(", sharding={{devices=[1,4]<=[4]}, {replicated}}", ""))
    cut = partitioned(module)
    assert cut.spmd_output_sharding.text == "{{devices=[1,4]<=[4]}, {replicated}}"
    assert [s.dims for s in cut.entry.root.shape.elements] == [(1, 2), (1, 8)]


CALL = """ENTRY main {
  x = f32[8,4,4] parameter(0), sharding={devices=[4,1,1]<=[4]}
  ROOT c = (f32[8,4,4], s32[8]) custom-call(x), custom_call_target="somebody",
    operand_layout_constraints={f32[8,4,4]{2,1,0}}, frontend_attributes={num_batch_dims="#"}
}"""


def test_batches_of_calls_are_cut() -> None:
    cut = partitioned(free(CALL.replace("#", "1")))
    hloom.verify(cut)
    assert traffic(cut) == {}
    (call,) = [i for i in cut.instructions() if i.opcode == "custom-call"]
    assert [s.dims for s in call.shape.elements] == [(2, 4, 4), (2,)]
    assert call.attrs.operand_layout_constraints[0].dims == (2, 4, 4)


@pytest.mark.parametrize("count", ["0", "2", "x"])
def test_batches_that_results_do_not_have_are_none(count: str) -> None:
    cut = partitioned(free(CALL.replace("#", count)))
    assert traffic(cut) == {"all-gather": 128}


def test_what_changes_nothing_in_a_sum_keeps_minus_zero() -> None:
    for name in ("f32", "bf16", "f64", "f16"):
        value = neutral_number("add", dtype(name))
        assert value == 0 and np.signbit(value)
    assert neutral_number("add", dtype("s32")) == 0
    assert np.signbit(neutral_number("add", dtype("c64")).imag)
    neutral_number("add", dtype("f8e8m0fnu"))  # has no zero, and no error


def test_minus_zero_comes_out_of_a_slice_that_one_device_serves() -> None:
    module = parsed(
        """ENTRY main { x = f32[8] parameter(0), sharding={devices=[4]<=[4]}
  i = s32[] parameter(1)
  ROOT s = f32[1] dynamic-slice(x, i), dynamic_slice_sizes={1} }"""
    )
    cut = partitioned(module)
    given = [np.array([0.0, -0.0], np.float32)] * 4
    results = evaluate_lockstep(cut, [[g, np.int32(3)] for g in given])
    assert all(np.signbit(np.asarray(r.array)[0]) for r in results)


def test_a_factor_that_goes_takes_those_behind_it_along() -> None:
    """Its reshape f32[5,16] -> f32[20,1,4] has the factors 5, 4 and 4: the first 4 cannot be cut in
    the result, so the other cannot be in the operand, which has a form that is cut along both."""
    check(701146)


SCAN = """below {{ s = (s32[], f32[8,6], f32[{rest}]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] constant(8)
  ROOT l = pred[] compare(k, n), direction=LT }}

step {{ s = (s32[], f32[8,6], f32[{rest}]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  x = f32[8,6] get-tuple-element(s), index=1
  h = f32[{rest}] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  row = f32[1,6] dynamic-slice(x, k, zero), dynamic_slice_sizes={{1,6}}
  flat = f32[6] reshape(row)
  half = f32[6] negate(flat)
  new = f32[{rest}] dynamic-update-slice(h, half, k)
  one = s32[] constant(1)
  next = s32[] add(k, one)
  ROOT t = (s32[], f32[8,6], f32[{rest}]) tuple(next, x, new) }}

ENTRY main {{
  x = f32[8,6] parameter(0), sharding={{devices=[4,1]<=[4]}}
  h = f32[{rest}] parameter(1), sharding={{replicated}}
  zero = s32[] constant(0)
  s = (s32[], f32[8,6], f32[{rest}]) tuple(zero, x, h)
  w = (s32[], f32[8,6], f32[{rest}]) while(s), condition=below, body=step
  ROOT r = f32[{rest}] get-tuple-element(w), index=2, sharding={{replicated}}
}}"""


@pytest.mark.parametrize(
    ("rest", "moved"),
    [(48, {"all-gather": 8 * 6}), (40, {"all-reduce": 6})],
)
def test_what_a_loop_slices_in_every_step_is_gathered_before_it_where_there_is_room(
    rest: int, moved: dict[str, int]
) -> None:
    assert traffic(cut_and_compared(SCAN.format(rest=rest))) == moved


def test_what_is_cut_by_two_axes_changes_places_without_a_gather() -> None:
    """Tiles are handed on, and what the axes differ by is exchanged."""
    for first, second, most in ((4, 2, 2048 + 1024), (2, 4, 2048 + 1024), (8, 2, 1024 + 768)):
        count = first * second
        cut = cut_and_compared(
            f"""ENTRY main {{
  x = f32[64,64] parameter(0), sharding={{devices=[{first},{second}]<=[{count}]}}
  ROOT y = f32[64,64] transpose(x), dimensions={{1,0}},
    sharding={{devices=[{first},{second}]<=[{count}]}}
}}""",
            count,
        )
        assert traffic(cut).keys() <= {"collective-permute", "all-to-all"}
        assert sum(traffic(cut).values()) <= most


REGION = """cond { s = (s32[], f32[2,8]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(k, n), direction=LT }

body { s = (s32[], f32[2,8]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(k, one)
  x = f32[2,8] get-tuple-element(s), index=1
  p = f32[2,8] collective-permute(x), channel_id=1, source_target_pairs={{0,2},{1,3},{2,0},{3,1}}
  y = f32[2,8] multiply(p, p)
  OPEN
  ROOT t = (s32[], f32[2,8]) tuple(next, LAST) }

ENTRY main {
  x = f32[4,8] parameter(0), sharding={mesh['a'=2,'b'=2], [{'a'}, {'b'}]}
  i = f32[2,8] custom-call(x), custom_call_target="SPMDFullToShardShape",
    sharding={mesh['a'=2,'b'=2], [{?}, {?}], manual={'a'}}
  zero = s32[] constant(0)
  t = (s32[], f32[2,8]) tuple(zero, i)
  w = (s32[], f32[2,8]) while(t), condition=cond, body=body
  o = f32[2,8] get-tuple-element(w), index=1
  ROOT r = f32[4,8] custom-call(o), custom_call_target="SPMDShardToFullShape",
    sharding={mesh['a'=2,'b'=2], [{'a', ?}, {?}]}
}"""


def joined_of(cut: Module, x: np.ndarray) -> np.ndarray:
    """The whole result of a partitioned program of one argument."""
    parts = split_arguments(cut, [hloom.Literal.of(x)])
    found = [np.asarray(r.array) for r in evaluate_lockstep(cut, parts)]
    return join_array(found, cut.spmd_output_sharding, x.shape)


X = np.random.default_rng(0).random((4, 8), dtype=np.float32)
TURNED = np.concatenate([X[2:], X[:2]])


@pytest.mark.parametrize("is_open", [False, True])
def test_axes_that_a_region_leaves_to_us_cut_what_is_inside(is_open: bool) -> None:
    """Also where something inside says that its dimensions are open, and nothing of the region's
    own axes."""
    marked = 'z = f32[2,8] custom-call(y), custom_call_target="Sharding", '
    marked += "sharding={mesh['a'=2,'b'=2], [{?}, {?}]}"
    text = REGION.replace("OPEN", marked if is_open else "")
    cut = partitioned(parsed(text.replace("LAST", "z" if is_open else "y")))
    hloom.verify(cut)
    permutes = [i for i in cut.instructions() if i.opcode == "collective-permute"]
    assert [i.shape.dims for i in permutes] == [(2, 4)]
    assert traffic(cut).keys() == {"collective-permute"}
    np.testing.assert_allclose(joined_of(cut, X), TURNED**8, rtol=1e-5)


def test_what_is_said_within_a_region_is_of_the_axes_that_it_leaves() -> None:
    """Of all that a loop carries round a ring it was said that it is whole, as Shardy says it, and
    the ring was refused as one outside of any region."""
    said = ", sharding={mesh['a'=2,'b'=2], [{}, {}]}"
    text = REGION.replace("(s32[], f32[2,8])", "(s32[], f32[2,8], f32[2,8])").replace("OPEN", "")
    x = "x = f32[2,8] get-tuple-element(s), index="
    text = text.replace(f"{x}1", f"x0 = {x[4:]}1{said}\n  {x}2{said}")
    text = text.replace("multiply(p, p)", f"add(p, x0){said}")
    text = text.replace("tuple(next, LAST)", "tuple(next, x0, y)")
    text = text.replace("tuple(zero, i)", "tuple(zero, i, b)")
    text = text.replace("(w), index=1", f"(w), index=2{said}")
    zeros = f"o0 = f32[] constant(0)\n  b = f32[2,8] broadcast(o0), dimensions={{}}{said}\n"
    cut = partitioned(parsed(text.replace("  t = (", f"  {zeros}  t = (")))
    hloom.verify(cut)
    np.testing.assert_allclose(joined_of(cut, X), 2 * X + TURNED, rtol=1e-5)
