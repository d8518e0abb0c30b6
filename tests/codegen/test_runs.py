"""Which parts of a program run side by side, that it pays, and that no order of them is wrong."""

from dataclasses import replace

import numpy as np
import pytest

from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.thunks.concurrent import plan_of
from hloom.codegen.runs import with_runs
from hloom.program.graph import races
from hloom.program.slice import Allocation, BufferSlice
from hloom.program.thunks.concurrent import Concurrent
from hloom.program.thunks.custom_call import CustomCall
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.thunk import walk
from hloom.targets.cpu.device import device_of

ARENA = Allocation(0, 1 << 20, "temp")
DEVICE = device_of(Machine.host(), 2)


def piece(k, size=64):
    return BufferSlice(ARENA, 64 * k, size)


def kernel(name, reads, writes, steps=1, ns=100_000.0):
    flags = (False,) * len(reads) + (True,) * len(writes)
    places = tuple(piece(k) for k in (*reads, *writes))
    return Kernel(name, name, places, flags, steps, ns)


def shape_of(thunks, units=2):
    found, [decision, *_] = with_runs(thunks, device_of(Machine.host(), units))
    if not isinstance(found[0], Concurrent):
        return decision.why
    assert races(found[0]) == []
    return [("".join(t.name for t in r.thunks), r.waits, r.stream) for r in found[0].runs]


def test_independent_steps_that_leave_cores_idle():
    thunks = [kernel("a", [0], [1]), kernel("b", [0], [2]), kernel("c", [1, 2], [3], ns=50)]
    assert shape_of(thunks) == [("a", (), 0), ("b", (), 1), ("c", (0, 1), 0)]


def test_light_steps_join_a_run():
    thunks = [
        kernel("p", [0], [1], ns=50),
        kernel("q", [1], [2], ns=50),
        kernel("a", [2], [3]),
        kernel("b", [2], [4]),
        kernel("r", [3], [5], ns=50),
        kernel("s", [4], [6], ns=50),
        kernel("t", [5, 6], [7], ns=50),
    ]
    assert shape_of(thunks) == [
        ("pq", (), 0),
        ("ar", (0,), 0),
        ("bs", (0,), 1),
        ("t", (1, 2), 0),
    ]


@pytest.mark.parametrize(
    ("thunks", "why"),
    [
        ([kernel("a", [0], [1])], "one step"),
        ([kernel("a", [0], [1]), kernel("b", [1], [2])], "each step waits"),
        ([kernel("a", [0], [1]), kernel("b", [0], [1])], "each step waits"),
        ([kernel(n, [0], [k], 64, 5e4) for k, n in enumerate("abc", 1)], "idle for 0 us"),
        ([kernel(n, [0], [k], ns=9_000) for k, n in enumerate("abc", 1)], "idle for"),
    ],
)
def test_why_not(thunks, why):
    assert why in shape_of(thunks)


def test_one_core_runs_nothing_beside():
    assert "one core" in shape_of([kernel("a", [0], [1]), kernel("b", [0], [2])], units=1)


def test_kernels_that_use_all_cores_stay_together():
    thunks = [kernel(n, [0], [k], 64, 5e4) for k, n in enumerate("abc", 1)]
    thunks.append(kernel("lone", [0], [9], ns=5e6))
    assert [name for name, *_ in shape_of(thunks)] == ["abc", "lone"]


def test_a_left_out_wait_is_a_race():
    draw = np.random.default_rng(3)
    free = replace(DEVICE.costs, run_ns=0.0, concurrency_gain_ns=0.0, concurrency_gain=0.0)
    device = replace(DEVICE, costs=free)
    looked = 0
    for _ in range(40):
        thunks = []
        for k in range(draw.integers(4, 14)):
            reads, writes = (list(draw.integers(0, 12, draw.integers(1, 4))) for _ in range(2))
            thunks.append(kernel(str(k), reads, writes, ns=float(draw.integers(1, 9)) * 1e5))
        found, _ = with_runs(thunks, device)
        if not isinstance(found[0], Concurrent):
            continue
        t = found[0]
        assert races(t) == []
        assert sorted(int(x.name) for x in walk(found) if x is not t) == list(range(len(thunks)))
        for k, run in enumerate(t.runs):
            for w in run.waits:
                rest = run._replace(waits=tuple(x for x in run.waits if x != w))
                wrong = replace(t, runs=(*t.runs[:k], rest, *t.runs[k + 1 :]))
                assert (w, k) in [(r.first, r.second) for r in races(wrong)]
                looked += 1
    assert looked > 100


def test_states_keep_their_order():
    calls = [CustomCall(n, "f", (k, None), (), (piece(k),), True) for k, n in enumerate("ab")]
    assert "waits" in shape_of(calls)
    pure = [replace(c, has_effect=False) for c in calls]
    assert [n for n, *_ in shape_of(pure)] == ["a", "b"]
    t = Concurrent("c", tuple(r for x in with_runs(pure, DEVICE)[0] for r in x.runs))
    assert plan_of(t)[:2] == (2, 2)
    effect = replace(t, runs=tuple(r._replace(thunks=(c,)) for r, c in zip(t.runs, calls)))
    assert "custom calls" in str(races(effect)[0])
