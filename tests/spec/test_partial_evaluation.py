"""Evaluation with parts unknown, guards, groups of devices, top-k."""

import numpy as np
import pytest

import hloom
from hloom.ir.values.group_modes import (
    CROSS_PARTITION,
    CROSS_REPLICA,
    CROSS_REPLICA_AND_PARTITION,
    FLATTENED,
    device_groups,
)
from hloom.ir.values.groups import ReplicaGroups

PARTIAL = """ENTRY e {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  z = f32[] constant(0)
  m = f32[] multiply(q, z)
  ROOT a = f32[] add(p, m)
}"""


def test_what_is_unknown_is_an_error_and_no_guess():
    e = hloom.parse(PARTIAL).entry
    with pytest.raises(hloom.HloError, match="%q"):
        hloom.evaluate_partially(e.root, {e["p"]: 2.0})
    for substituted in ({e["q"]: 5.0}, {e["m"]: e["z"]}, {e["q"]: e["z"]}, {e["m"]: 0.0}):
        assert hloom.evaluate_partially(e.root, {e["p"]: 2.0}, substituted).array == 2.0


@pytest.mark.parametrize("callers", [1, 2])
def test_a_parameter_is_known_through_one_caller_only(callers):
    text = """f {
  x = f32[] parameter(0)
  ROOT r = f32[] negate(x)
}
ENTRY e {
  p = f32[] constant(3)
  a = f32[] call(p), to_apply=f
  ROOT w = f32[] LAST
}"""
    last = "sine(a)" if callers == 1 else "call(p), to_apply=f"
    module = hloom.parse(text.replace("LAST", last))
    if callers == 1:
        assert hloom.evaluate_partially(module["f"].root).array == -3.0
    else:
        with pytest.raises(hloom.HloError, match="2 callers"):
            hloom.evaluate_partially(module["f"].root)


def test_a_while_that_never_ends_stops_at_the_guard():
    text = """c {
  p = s32[] parameter(0)
  ROOT r = pred[] constant(true)
}
b {
  p = s32[] parameter(0)
  ROOT r = s32[] add(p, p)
}
ENTRY e {
  p = s32[] constant(1)
  ROOT w = s32[] while(p), condition=c, body=b
}"""
    options = hloom.EvalOptions(while_iteration_limit=50)
    with pytest.raises(hloom.HloError, match="50 iterations"):
        hloom.evaluate(hloom.parse(text), options=options)


def test_a_barrier_is_the_identity():
    shape = "(f32[2]{0}, (s32[], pred[0]{0}))"
    module = hloom.parse(
        f"ENTRY e {{\n p = {shape} parameter(0)\n ROOT o = {shape} opt-barrier(p)\n}}"
    )
    (argument,) = hloom.random_arguments(module)
    assert hloom.evaluate(module, argument) == argument


@pytest.mark.parametrize(
    ("mode", "given", "wanted"),
    [
        (CROSS_REPLICA, ((0, 1),), {(0, 2), (1, 3)}),
        (CROSS_PARTITION, ((0, 1),), {(0, 1), (2, 3)}),
        (FLATTENED, ((0, 3), (1, 2)), {(0, 3), (1, 2)}),
        (CROSS_REPLICA_AND_PARTITION, ((0, 1),), {(0, 1, 2, 3)}),
    ],
)
def test_groups_in_the_four_modes(mode, given, wanted):
    found = {tuple(sorted(g)) for g in device_groups(ReplicaGroups(given), mode, 2, 2)}
    assert found == wanted


def on_devices(body: str, *arguments, head: str = "replica_count=2"):
    module = hloom.parse(f"HloModule m, {head}\n{body}")
    hloom.verify(module)
    return [r.array for r in hloom.evaluate_lockstep(module, [[a] for a in arguments])]


def test_a_permute_leaves_zeros_where_nothing_arrives():
    body = """ENTRY e {
  p = f32[2]{0} parameter(0)
  ROOT r = f32[2]{0} collective-permute(p), source_target_pairs={{0,1}}
}"""
    first, second = on_devices(body, [1.0, 2.0], [3.0, 4.0])
    assert first.tolist() == [0, 0] and second.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("kind", "opcode", "a", "b", "result"),
    [
        ("pred", "or", True, False, True),
        ("pred", "and", True, False, False),
        ("pred", "maximum", False, True, True),
        ("c64", "multiply", 1 + 2j, 3 - 1j, 5 + 5j),
        ("s8", "add", 100, 100, -56),
        ("u8", "multiply", 20, 20, 144),
        ("f32", "minimum", float("nan"), 1.0, float("nan")),
    ],
)
def test_reductions_across_devices(kind, opcode, a, b, result):
    body = f"""red {{
  x = {kind}[] parameter(0)
  y = {kind}[] parameter(1)
  ROOT r = {kind}[] {opcode}(x, y)
}}
ENTRY e {{
  p = {kind}[] parameter(0)
  ROOT r = {kind}[] all-reduce(p), replica_groups={{}}, to_apply=red
}}"""
    for found in on_devices(body, a, b):
        assert np.array_equal(found, np.asarray(result, found.dtype), equal_nan=kind == "f32")
    alone = body.replace("replica_groups={}", "replica_groups={{0},{1}}")
    _, second = on_devices(alone, a, b)
    assert np.array_equal(second, np.asarray(b, second.dtype))


def test_topk_orders_nan_and_ties_as_a_stable_sort():
    nan = float("nan")
    topk = """ENTRY e {
  p = f32[4] parameter(0)
  ROOT t = (f32[4], s32[4]) topk(p), k=4, largest=LARGEST
}"""
    module = hloom.parse(topk.replace("LARGEST", "true"))
    _, indices = hloom.evaluate(module, [3, 1, 3, nan]).elements
    assert indices.array.tolist() == [3, 0, 2, 1]
    module = hloom.parse(topk.replace("LARGEST", "false"))
    _, indices = hloom.evaluate(module, [3, 1, 3, nan]).elements
    assert indices.array.tolist() == [1, 0, 2, 3]
    with pytest.raises(hloom.HloError, match="to_apply"):
        hloom.parse(topk.replace("LARGEST", "true, to_apply=f"))
