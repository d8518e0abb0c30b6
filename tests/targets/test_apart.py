"""Programs whose independent parts get memory of their own, so that they can run side by side."""

import os
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

import hloom
from hloom.base.guarding import GUARDING
from hloom.codegen.llvm.machine import Machine
from hloom.executable import Executable
from hloom.ir.text import parse_module
from hloom.program.graph import races
from hloom.program.thunks.concurrent import Concurrent
from hloom.program.thunks.thunk import walk
from hloom.runtime import ffi
from hloom.runtime.drawn_order import drawn_order
from hloom.runtime.library import library
from hloom.targets.cpu.device import device_of
from hloom.targets.cpu.target import CpuTarget

shares_memory = pytest.mark.skipif(GUARDING, reason="under guard no two values share memory")
LOOP = """
cond_{0} {{
  p = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant({2})
  ROOT l = pred[] compare(i, n), direction=LT
}}
body_{0} {{
  p = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[64] get-tuple-element(p), index=1
  y = f32[64] {1}(x)
  z = f32[64] add(y, x)
  ROOT r = (s32[], f32[64]) tuple(j, z)
}}
"""
TWO_LOOPS = (
    "HloModule loops\n"
    + LOOP.format("a", "sine", 2000)
    + LOOP.format("b", "cosine", 2000)
    + """ENTRY main {
  x = f32[64] parameter(0)
  w = f32[64] parameter(1)
  z = s32[] constant(0)
  init_a = (s32[], f32[64]) tuple(z, x)
  a = (s32[], f32[64]) while(init_a), condition=cond_a, body=body_a
  init_b = (s32[], f32[64]) tuple(z, w)
  b = (s32[], f32[64]) while(init_b), condition=cond_b, body=body_b
  ar = f32[64] get-tuple-element(a), index=1
  br = f32[64] get-tuple-element(b), index=1
  ROOT s = f32[64] add(ar, br)
}"""
)


def solves(count, n=96, rest=""):
    """Solves whose right-hand sides are computed first."""
    lines = [
        f"""
  k_{i} = f32[] constant({i + 1}.5)
  n_{i} = f32[{n},{n}] broadcast(k_{i}), dimensions={{}}
  m_{i} = f32[{n},{n}] multiply(x, n_{i})
  t_{i} = f32[{n},{n}] transpose(m_{i}), dimensions={{1,0}}
  c_{i} = f32[{n},{n}] triangular-solve(a, t_{i}), left_side=true, lower=true,
    unit_diagonal=true, transpose_a=NO_TRANSPOSE
  r_{i} = f32[{n}] reduce(c_{i}, z), dimensions={{1}}, to_apply=add_f"""
        for i in range(count)
    ]
    results = ", ".join(f"r_{i}" for i in range(count))
    shapes = ", ".join([f"f32[{n}]"] * count)
    return f"""HloModule solves
add_f {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
ENTRY main {{
  a = f32[{n},{n}] parameter(0)
  x = f32[{n},{n}] parameter(1)
  z = f32[] constant(0){"".join(lines)}
  ROOT s = ({shapes}) tuple({results})
}}"""


def device(**costs):
    found = device_of(Machine.host(), 2)
    return replace(found, costs=replace(found.costs, **costs))


def executable(text, scheduler="default", threads=2, **costs):
    target = CpuTarget(Machine.host(), kernel_device=device(**costs), scheduler=scheduler)
    return Executable(target.compile(parse_module(text)), threads)


def leaves(result):
    return [np.asarray(x).copy() for x in (result if isinstance(result, tuple) else (result,))]


def check(text, exe, seeds=4):
    """The same bytes as one step after another, in every order that is drawn."""
    [t] = [t for t in walk(exe.thunks) if isinstance(t, Concurrent)]
    assert races(t) == []
    arguments = hloom.random_arguments(parse_module(text), seed=0)
    want = leaves(executable(text, "memory")(*arguments))
    before = library().hl_executor_overlaps()
    for seed in range(1, 200):
        with drawn_order(seed, most_delay_ns=200_000):
            got = leaves(exe(*arguments))
        for x, y in zip(want, got, strict=True):
            assert np.array_equal(x, y, equal_nan=True)
        # A machine that is busy may have no second thread to give for a while.
        if seed >= seeds and library().hl_executor_overlaps() > before:
            return t
    raise AssertionError("nothing ran beside anything")


@shares_memory
def test_two_equal_loops():
    exe = executable(TWO_LOOPS)
    check(TWO_LOOPS, exe)
    assert "bytes more" in exe.as_text("thunks")
    alone = executable(TWO_LOOPS, "memory")
    assert 0 < exe.memory.temp - alone.memory.temp < 1024


@pytest.mark.parametrize("count", [2, 3, 7])
def test_solves_whose_operands_are_computed_first(count):
    text = solves(count)
    exe = executable(text, multiply_add_ns=1.0, matrix_element_ns=40.0)
    t = check(text, exe)
    assert t.streams >= min(count, 4)
    # Memory grows with the threads, not with what there is to do.
    alone = executable(text, "memory", multiply_add_ns=1.0, matrix_element_ns=40.0)
    assert exe.memory.temp <= max(alone.memory.temp, 4 * 2 * 4 * 96 * 96 + 2048)


def test_inside_a_loop():
    body = (
        TWO_LOOPS.split("ENTRY")[0]
        + """
again {
  p = (s32[], f32[64], f32[64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT
}
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT
}
step {
  p = (s32[], f32[64], f32[64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[64] get-tuple-element(p), index=1
  w = f32[64] get-tuple-element(p), index=2
  z = s32[] constant(0)
  xx = f32[64] sort(x), dimensions={0}, to_apply=less  // in no kernel of a whole loop
  init_a = (s32[], f32[64]) tuple(z, xx)
  a = (s32[], f32[64]) while(init_a), condition=cond_a, body=body_a
  xw = f32[64] add(x, w)
  init_b = (s32[], f32[64]) tuple(z, xw)
  b = (s32[], f32[64]) while(init_b), condition=cond_b, body=body_b
  ar = f32[64] get-tuple-element(a), index=1
  br = f32[64] get-tuple-element(b), index=1
  ROOT r = (s32[], f32[64], f32[64]) tuple(j, br, ar)
}
ENTRY main {
  x = f32[64] parameter(0)
  w = f32[64] parameter(1)
  z = s32[] constant(0)
  init = (s32[], f32[64], f32[64]) tuple(z, x, w)
  a = (s32[], f32[64], f32[64]) while(init), condition=again, body=step
  ar = f32[64] get-tuple-element(a), index=1
  br = f32[64] get-tuple-element(a), index=2
  ROOT s = (f32[64], f32[64]) tuple(ar, br)
}"""
    )
    exe = executable(body)
    check(body, exe)
    assert "a, body: " in exe.as_text("thunks")


def test_a_donated_array_that_another_branch_reads():
    text = (
        TWO_LOOPS.replace(
            "init_b = (s32[], f32[64]) tuple(z, w)",
            "xx = f32[64] add(x, w)\n  init_b = (s32[], f32[64]) tuple(z, xx)",
        )
        .replace(
            "HloModule loops", "HloModule loops, input_output_alias={ {0}: (0, {}, may-alias) }"
        )
        .replace("ROOT s = f32[64] add(ar, br)", "ROOT s = (f32[64], f32[64]) tuple(br, ar)")
    )
    exe = executable(text)
    arguments = hloom.random_arguments(parse_module(text), seed=0)
    want = leaves(executable(text, "memory")(*arguments))
    for seed in range(1, 8):
        with drawn_order(seed, most_delay_ns=100_000):
            got = leaves(exe(*hloom.random_arguments(parse_module(text), seed=0)))
        assert all(map(np.array_equal, want, got))


@shares_memory
def test_no_room_says_what_is_shared():
    exe = executable(TWO_LOOPS, concurrency_memory=0.0, concurrency_bytes=0.0)
    assert not any(isinstance(t, Concurrent) for t in walk(exe.thunks))
    text = exe.as_text("thunks")
    [line] = [x for x in text.splitlines() if "main: not concurrent" in x]
    assert "waits for" in line and "both use " in line and "bytes more" in line


def test_what_needs_the_one_before_stays_as_it_is(monkeypatch):
    chain = TWO_LOOPS.replace("tuple(z, w)", "tuple(z, q)").replace(
        "init_b =", "q = f32[64] get-tuple-element(a), index=1\n  init_b ="
    )
    monkeypatch.setattr("hloom.targets.cpu.apart._attempt", None)
    for text in (chain, LOOP_FREE):
        exe = executable(text)
        assert not any(isinstance(t, Concurrent) for t in walk(exe.thunks))
    assert "the others need what they compute" in executable(chain).as_text("thunks")


LOOP_FREE = """HloModule light
ENTRY main {
  x = f32[64,64] parameter(0)
  a = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[64,64] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT c = f32[64,64] add(a, b)
}"""


# A minute, so that a test that fails comes to an end.
LONG = TWO_LOOPS.replace("constant(2000)", "constant(300000000)")


@pytest.mark.parametrize("scheduler", ["memory", "default"])
def test_long_loops_are_interrupted(scheduler):
    exe = executable(LONG, scheduler)
    assert any(isinstance(t, Concurrent) for t in walk(exe.thunks)) == (scheduler == "default")
    exe._executor.interruptible = True
    # Who started the tests may have ignored it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.perf_counter()
    try:
        with pytest.raises(KeyboardInterrupt):
            exe(*hloom.random_arguments(parse_module(LONG), seed=0))
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.perf_counter() - start < 40
    timer.join()


def test_several_callers_each_get_their_own():
    exe = executable(TWO_LOOPS, threads=3)
    alone = executable(TWO_LOOPS, "memory", threads=1)
    draw = np.random.default_rng(1)
    given = [[draw.standard_normal(64).astype(np.float32) for _ in range(2)] for _ in range(4)]
    want = [np.asarray(alone(*x)).copy() for x in given]
    wrong = []

    def work(k):
        for _ in range(30):
            if not np.array_equal(np.asarray(exe(*given[k])), want[k]):
                wrong.append(k)

    with drawn_order(7):
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong


def test_an_error_is_that_callers_alone():
    def picky(call):
        if call.arguments[0][0] > 1e8:
            raise ValueError("too large")
        call.results[0][:] = call.arguments[0]

    ffi.register("apart.picky", picky)
    text = TWO_LOOPS.replace(
        "ROOT s = f32[64] add(ar, br)",
        'q = f32[64] custom-call(x), custom_call_target="apart.picky"\n'
        "  t = f32[64] add(ar, br)\n  ROOT s = f32[64] add(t, q)",
    )
    exe = executable(text)
    alone = executable(text, "memory", threads=1)
    good, bad = np.ones(64, np.float32), np.full(64, 1e9, np.float32)
    want = np.asarray(alone(good, good)).copy()
    failed, wrong = [], []

    def work(x):
        for _ in range(15):
            try:
                if not np.array_equal(np.asarray(exe(x, good)), want):
                    wrong.append(x[0])
            except Exception as error:
                failed.append((x[0], str(error)))

    with drawn_order(3):
        threads = [threading.Thread(target=work, args=(x,)) for x in (good, bad, good)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong and len(failed) == 15
    assert all(x == bad[0] and "too large" in what for x, what in failed)
