"""Every collective on several devices, in every group mode, and what happens when one waits."""

import numpy as np
import pytest

from hloom.base.diagnostics import EvalError
from hloom.interp import evaluate, evaluate_lockstep
from hloom.ir.text import parse_module
from hloom.ir.values.group_modes import (
    CROSS_PARTITION,
    CROSS_REPLICA,
    CROSS_REPLICA_AND_PARTITION,
    FLATTENED,
    device_groups,
)
from hloom.ir.values.groups import NO_GROUPS, ReplicaGroups

ADD = """HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
"""


def run(body: str, values, replicas=1, partitions=1, header=ADD):
    """What each device returns for its own x."""
    module = parse_module(f"{header}ENTRY e {{ {body} }}")
    given = [v if isinstance(v, tuple) else (v,) for v in values]
    results = evaluate_lockstep(module, given, replicas=replicas, partitions=partitions)
    return [tuple(part.array for part in r.elements) if r.is_tuple else r.array for r in results]


def rows(count: int, size: int = 4) -> list[np.ndarray]:
    return [np.arange(size, dtype=np.float32) + 10 * d for d in range(count)]


def test_group_modes():
    groups = ReplicaGroups(((0, 1),))
    assert device_groups(groups, CROSS_REPLICA, 2, 2) == ((0, 2), (1, 3))
    assert device_groups(groups, CROSS_PARTITION, 2, 2) == ((0, 1), (2, 3))
    assert device_groups(groups, CROSS_REPLICA_AND_PARTITION, 2, 2) == ((0, 1, 2, 3),)
    crossed = ReplicaGroups(((0, 3), (1, 2)))
    assert device_groups(crossed, FLATTENED, 2, 2) == ((0, 3), (1, 2))
    assert device_groups(NO_GROUPS, FLATTENED, 2, 2) == ((0, 1, 2, 3),)
    assert device_groups(NO_GROUPS, CROSS_REPLICA, 2, 2) == ((0, 2), (1, 3))


@pytest.mark.parametrize(
    ("attributes", "groups"),
    [
        ("replica_groups={{0,1}}", [(0, 2), (1, 3)]),
        ("replica_groups={}", [(0, 2), (1, 3)]),
        ("replica_groups={{0},{1}}, channel_id=1", [(0, 1), (2, 3)]),
        ("replica_groups={{0,1}}, channel_id=1", [(0, 1, 2, 3)]),
        (
            "replica_groups={{0,3},{1,2}}, channel_id=1, use_global_device_ids=true",
            [(0, 3), (1, 2)],
        ),
    ],
)
def test_all_reduce_in_every_mode(attributes, groups):
    x = rows(4)
    body = f"x = f32[4] parameter(0)\nROOT r = f32[4] all-reduce(x), to_apply=add, {attributes}"
    results = run(body, x, 2, 2)
    for group in groups:
        for d in group:
            assert np.array_equal(results[d], sum(x[k] for k in group))


@pytest.mark.parametrize(
    ("opcode", "dtype", "expected"),
    [
        ("add", "pred", [True, True]),
        ("multiply", "pred", [False, True]),
        ("minimum", "pred", [False, True]),
        ("maximum", "s8", [3, 7]),
        ("multiply", "c64", [-3, 7j]),
        ("add", "bf16", [2, 8]),
    ],
)
def test_reductions_of_other_types(opcode, dtype, expected):
    numbers = {
        "pred": [[True, True], [False, True]],
        "s8": [[3, 1], [-2, 7]],
        "c64": [[1j, 7], [3j, 1j]],
        "bf16": [[1.5, 4], [0.5, 4]],
    }[dtype]
    from hloom.types.literal import Literal

    header = f"""HloModule m
    f {{ a = {dtype}[] parameter(0)
      b = {dtype}[] parameter(1)
      ROOT s = {dtype}[] {opcode}(a, b) }}
    """
    body = f"x = {dtype}[2] parameter(0)\nROOT r = {dtype}[2] all-reduce(x), to_apply=f"
    given = [Literal.of(n, dtype) for n in numbers]
    results = run(body, given, 2, header=header)
    assert np.array_equal(results[0], Literal.of(expected, dtype).array)
    assert np.array_equal(results[0], results[1])


def test_all_reduce_of_several_operands_and_in_two_halves():
    x = rows(2)
    body = """x = f32[4] parameter(0)
    s = (f32[4], f32[4]) all-reduce-start(x, x), to_apply=add
    ROOT d = (f32[4], f32[4]) all-reduce-done(s)"""
    for a, b in run(body, x, 2):
        assert np.array_equal(a, x[0] + x[1]) and np.array_equal(b, a)


def test_all_gather():
    x = [v.reshape(2, 2) for v in rows(2)]
    body = "x = f32[2,2] parameter(0)\nROOT r = f32[2,4] all-gather(x), dimensions={1}"
    for r in run(body, x, 2):
        assert np.array_equal(r, np.concatenate(x, 1))
    body = """x = f32[2,2] parameter(0)
    s = (f32[2,2], f32[4,2]) all-gather-start(x), dimensions={0}, replica_groups={{1,0}}
    ROOT r = f32[4,2] all-gather-done(s)"""
    for r in run(body, x, 2):
        assert np.array_equal(r, np.concatenate(x[::-1], 0))


def test_reduce_scatter():
    x = rows(2)
    body = """x = f32[4] parameter(0)
    ROOT r = f32[2] reduce-scatter(x), dimensions={0}, to_apply=add"""
    total = x[0] + x[1]
    for d, r in enumerate(run(body, x, 2)):
        assert np.array_equal(r, total[2 * d : 2 * d + 2])


def test_all_to_all_of_an_array_and_of_tuples():
    x = rows(2)
    body = "x = f32[4] parameter(0)\nROOT r = f32[4] all-to-all(x), dimensions={0}"
    first, second = run(body, x, 2)
    assert np.array_equal(first, [0, 1, 10, 11]) and np.array_equal(second, [2, 3, 12, 13])
    body = """x = f32[4] parameter(0)
    y = f32[4] negate(x)
    ROOT r = (f32[4], f32[4]) all-to-all(x, y), channel_id=1, replica_groups={{0,1}}"""
    first, second = run(body, x, 1, 2)
    assert np.array_equal(first, [x[0], x[1]]) and np.array_equal(second, [-x[0], -x[1]])


def test_a_permute_leaves_zeros_where_no_pair_ends():
    body = """x = f32[4] parameter(0)
    ROOT r = f32[4] collective-permute(x), source_target_pairs={{0,1}}"""
    x = rows(2)
    first, second = run(body, x, 2)
    assert np.array_equal(first, np.zeros(4)) and np.array_equal(second, x[0])


def test_permutes_of_several_operands_in_two_halves():
    body = """x = f32[4] parameter(0)
    y = f32[4] negate(x)
    s = ((f32[4], f32[4]), (f32[4], f32[4]), u32[], u32[]) collective-permute-start(x, y),
      source_target_pairs={{0,1},{1,2},{2,0}}, channel_id=1
    ROOT r = (f32[4], f32[4]) collective-permute-done(s)"""
    x = rows(3)
    results = run(body, x, 1, 3)
    for d in range(3):
        assert np.array_equal(results[d], [x[d - 1], -x[d - 1]])


def test_an_in_place_permute_writes_a_slice():
    body = """x = f32[4] parameter(0)
    y = f32[4] parameter(1)
    one = s32[] constant(1)
    two = s32[] constant(2)
    a = (s32[]) tuple(one)
    b = (s32[]) tuple(two)
    ROOT r = f32[4] collective-permute(x, y, a, b),
      source_target_pairs={{0,1}}, slice_sizes={{2}}"""
    x = rows(2)
    first, second = run(body, [(x[0], -x[0]), (x[1], -x[1])], 2)
    assert np.array_equal(first, -x[0])
    assert np.array_equal(second, [-10, -11, 1, 2])


def test_broadcast_from_the_first_of_each_group():
    body = """x = f32[4] parameter(0)
    ROOT r = f32[4] collective-broadcast(x), replica_groups={{1,0},{2}}"""
    x = rows(4)
    results = run(body, x, 4)
    for r, expected in zip(results, (x[1], x[1], x[2], 0 * x[3])):
        assert np.array_equal(r, expected)


def test_reduce_to_the_first_of_each_group():
    body = """x = f32[4] parameter(0)
    ROOT r = f32[4] collective-reduce(x), replica_groups={{1,0},{2,3}}, to_apply=add"""
    x = rows(4)
    results = run(body, x, 4)
    for r, expected in zip(results, (0 * x[0], x[0] + x[1], x[2] + x[3], 0 * x[3])):
        assert np.array_equal(r, expected)


def test_reduce_to_roots_of_run_time():
    body = """x = f32[4] parameter(0)
    y = f32[4] negate(x)
    w = s32[2] parameter(1)
    ROOT r = (f32[4], f32[4]) collective-reduce(x, y, w), replica_groups={{2,0,1}},
      has_dynamic_root=true, to_apply=add"""
    x = rows(3)
    total, zero = x[0] + x[1] + x[2], 0 * x[0]
    results = run(body, [(row, np.array([1, 0], np.int32)) for row in x], 3)
    for found, expected in zip(results, ((total, zero), (zero, zero), (zero, -total))):
        assert all(np.array_equal(a, b) for a, b in zip(found, expected))
    with pytest.raises(EvalError, match="root 3 is none of the 3 devices"):
        run(body, [(row, np.array([3, 0], np.int32)) for row in x], 3)


def test_ragged_all_to_all():
    body = """x = f32[4] parameter(0)
    y = f32[4] parameter(1)
    i = s32[2] parameter(2)
    s = s32[2] parameter(3)
    o = s32[2] parameter(4)
    r = s32[2] parameter(5)
    ROOT z = f32[4] ragged-all-to-all(x, y, i, s, o, r), replica_groups={{0,1}}"""
    x = rows(2)
    ints = [np.array(v, np.int32) for v in ([0, 1], [1, 3], [0, 0], [1, 2], [0, 2], [2, 1])]
    empty = np.full(4, -1, np.float32)
    first, second = run(
        body,
        [
            # device 0 keeps 1 row at 0 and sends rows 1..3 to device 1 at 0
            (x[0], empty, ints[0], ints[1], ints[2], ints[3]),
            # device 1 sends rows 0 and 1 to device 0 at 1 and keeps row 2 at 3
            (x[1], empty, *(np.array(v, np.int32) for v in ([0, 2], [2, 1], [1, 3], [3, 1]))),
        ],
        2,
    )
    assert np.array_equal(first, [0, 10, 11, -1])
    assert np.array_equal(second, [1, 2, 3, 12])


def test_device_ids():
    body = """x = f32[] parameter(0)
    p = u32[] partition-id()
    r = u32[] replica-id()
    ROOT t = (u32[], u32[]) tuple(r, p)"""
    assert run(body, [0.0] * 6, 2, 3) == [(r, p) for r in range(2) for p in range(3)]


PAIRS = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,2}}"}'


def test_send_and_recv_between_devices():
    body = f"""x = f32[4] parameter(0)
    t = token[] after-all()
    r = (f32[4], u32[], token[]) recv(t), channel_id=1, {PAIRS}
    s = (f32[4], u32[], token[]) send(x, t), channel_id=1, {PAIRS}, control-predecessors={{r}}
    rd = (f32[4], token[]) recv-done(r), channel_id=1
    sd = token[] send-done(s), channel_id=1
    ROOT d = f32[4] get-tuple-element(rd), index=0"""
    x = rows(3)
    first, second, third = run(body, x, 1, 3)
    assert np.array_equal(first, np.zeros(4))
    assert np.array_equal(second, x[0]) and np.array_equal(third, x[1])


def test_collectives_inside_loops_calls_and_async():
    header = """HloModule m
    add { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT s = f32[] add(a, b) }
    reduce { x = f32[] parameter(0)
      ROOT r = f32[] all-reduce(x), to_apply=add }
    body { p = (s32[], f32[]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      x = f32[] get-tuple-element(p), index=1
      one = s32[] constant(1)
      j = s32[] add(i, one)
      s = ((f32[]), f32[], s32[]) async-start(x), calls=reduce
      y = f32[] async-done(s)
      ROOT t = (s32[], f32[]) tuple(j, y) }
    condition { p = (s32[], f32[]) parameter(0)
      i = s32[] get-tuple-element(p), index=0
      n = s32[] constant(3)
      ROOT c = pred[] compare(i, n), direction=LT }
    """
    body = """x = f32[] parameter(0)
    z = s32[] constant(0)
    t = (s32[], f32[]) tuple(z, x)
    w = (s32[], f32[]) while(t), condition=condition, body=body
    ROOT r = f32[] get-tuple-element(w), index=1"""
    assert run(body, [1.0, 2.0], 2, header=header) == [12, 12]


DIVERGING = """HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
meet { x = f32[] parameter(0)
  ROOT inner = f32[] all-reduce(x), to_apply=add }
alone { x = f32[] parameter(0)
  ROOT r = f32[] negate(x) }
"""
BRANCH = """x = f32[] parameter(0)
p = pred[] parameter(1)
ROOT c = f32[] conditional(p, x, x), true_computation=meet, false_computation=alone"""


def test_devices_may_go_different_ways_without_collectives():
    assert run(BRANCH, [(1.0, False), (2.0, False)], 2, header=DIVERGING) == [-1, -2]
    assert run(BRANCH, [(1.0, True), (2.0, True)], 2, header=DIVERGING) == [3, 3]


def test_a_stuck_collective_names_who_waits_where():
    with pytest.raises(EvalError) as caught:
        run(BRANCH, [(1.0, True), (2.0, False)], 2, header=DIVERGING)
    message = caught.value.message
    assert "device 0 (replica 0, partition 0) waits at %inner (all-reduce)" in message
    assert "device 1 (replica 1, partition 0) has finished" in message


def test_a_receive_nobody_sends_to_is_an_error():
    body = f"""x = f32[4] parameter(0)
    t = token[] after-all()
    r = (f32[4], u32[], token[]) recv(t), channel_id=1, {PAIRS}
    rd = (f32[4], token[]) recv-done(r), channel_id=1
    ROOT d = f32[4] get-tuple-element(rd), index=0"""
    with pytest.raises(EvalError, match=r"device 1 .* waits at %rd \(recv-done\) for a send"):
        run(body, rows(3), 1, 3)


def test_a_collective_inside_a_reduction_is_an_error():
    header = (
        DIVERGING
        + """pair { a = f32[] parameter(0)
      b = f32[] parameter(1)
      c = f32[] add(a, b)
      ROOT inner = f32[] all-reduce(c), to_apply=add }
    """
    )
    body = """x = f32[4] parameter(0)
    z = f32[] constant(0)
    ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=pair"""
    with pytest.raises(EvalError, match="%inner: other devices do not take part here"):
        run(body, rows(2), 2, header=header)


def test_groups_must_name_this_device_and_no_others():
    body = (
        "x = f32[4] parameter(0)\nROOT r = f32[4] all-reduce(x), to_apply=add, replica_groups={G}"
    )
    with pytest.raises(EvalError, match=r"device 1 .* is in none of the replica groups"):
        run(body.replace("G", "{0}"), rows(2), 2)
    with pytest.raises(EvalError, match="beyond 2"):
        run(body.replace("G", "{0,1,2}"), rows(2), 2)


def test_alone_every_group_is_one_device():
    body = "x = f32[4] parameter(0)\nROOT r = f32[4] all-reduce(x), to_apply=add"
    module = parse_module(f"{ADD}ENTRY e {{ {body} }}")
    assert np.array_equal(evaluate(module, rows(1)[0]).array, rows(1)[0])


def test_the_number_of_argument_lists_is_checked():
    module = parse_module(f"{ADD}ENTRY e {{ ROOT x = f32[4] parameter(0) }}")
    with pytest.raises(EvalError, match="4 devices need 4 lists of arguments, but 1 was given"):
        evaluate_lockstep(module, [rows(1)], replicas=2, partitions=2)
