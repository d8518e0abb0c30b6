"""Programs whose parts run side by side: right in every order, errors, cancelling, handlers."""

import os
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError
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

NATIVE = Path(hloom.__file__).parent / "runtime" / "native"
SOURCE = """
#include <time.h>
#include <string.h>
#include "custom_call.h"
HL_API int32_t rest(hl_context*, const hl_call_frame* f) {
  timespec time{0, 150'000'000};
  nanosleep(&time, nullptr);
  memcpy(f->results[0].data, f->operands[0].data, 4 * f->operands[0].dims[0]);
  return 0;
}
// Whoever calls waits until another is in it at the same time, and says whether one came.
static int inside = 0;
HL_API int32_t meet(hl_context*, const hl_call_frame* f) {
  const int mine = __atomic_fetch_add(&inside, 1, __ATOMIC_SEQ_CST);
  const int both = (mine | 1) + 1;
  timespec time{0, 1'000'000};
  int met = 0;
  for (int k = 0; k < 20'000 && met == 0; ++k) {
    met = __atomic_load_n(&inside, __ATOMIC_SEQ_CST) >= both;
    if (met == 0) nanosleep(&time, nullptr);
  }
  for (int64_t k = 0; k < f->operands[0].dims[0]; ++k)
    static_cast<float*>(f->results[0].data)[k] = static_cast<float>(met);
  return 0;
}
HL_API int32_t fail(hl_context* context, const hl_call_frame*) {
  return hl_set_error(context, HL_NOT_FOUND, "nothing was there");
}
HL_API int32_t until_cancelled(hl_context* context, const hl_call_frame*) {
  timespec time{0, 1'000'000};
  for (int k = 0; k < 20'000; ++k) {
    if (__atomic_load_n(&context->cancel, __ATOMIC_RELAXED) != 0) return HL_CANCELLED;
    nanosleep(&time, nullptr);
  }
  return 0;
}
"""


@pytest.fixture(scope="module", autouse=True)
def handlers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("handlers")
    (folder / "handlers.cc").write_text(SOURCE)
    compiler = os.environ.get("CXX", "c++")
    options = ["-std=c++20", "-shared", "-fPIC", f"-I{NATIVE}"]
    subprocess.run([compiler, *options, "handlers.cc", "-o", "handlers.so"], cwd=folder, check=True)
    for name in ("rest", "meet", "fail", "until_cancelled"):
        ffi.register_symbol(f"beside.{name}", str(folder / "handlers.so"), name, "hloom")


def executable(text, threads=2, scheduler="concurrency"):
    machine = Machine.host()
    target = CpuTarget(machine, kernel_device=device_of(machine, 2), scheduler=scheduler)
    return Executable(target.compile(parse_module(text)), threads)


def sets_of_runs(exe):
    return [t for t in walk(exe.thunks) if isinstance(t, Concurrent)]


def calls(first, second, effect="false"):
    effects = f"custom_call_has_side_effect={effect}"
    return f"""HloModule calls
ENTRY main {{
  x = f32[8] parameter(0)
  a = f32[8] custom-call(x), custom_call_target="beside.{first}", {effects}
  n = f32[8] negate(x)
  b = f32[8] custom-call(n), custom_call_target="beside.{second}", {effects}
  ROOT r = f32[8] subtract(a, b)
}}"""


X = np.arange(8, dtype=np.float32)


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def overlaps_within(times, work):
    """Whether two runs were under way at once in one of so many calls: the other thread may come
    too late to some of them where the machine has more to do."""
    before = library().hl_executor_overlaps()
    for _ in range(times):
        work()
        if library().hl_executor_overlaps() > before:
            return True
    return False


def test_two_calls_are_under_way_at_once():
    """Each ends when the other has begun, however slow the machine is."""
    text = calls("meet", "meet").replace("subtract(a, b)", "add(a, b)")
    before = library().hl_executor_overlaps()
    assert np.asarray(executable(text, scheduler="default")(X)).tolist() == [2.0] * 8
    assert library().hl_executor_overlaps() == before + 1


@pytest.mark.parametrize("threads", [1, 2])
def test_two_executables_run_at_once(threads):
    """Two threads of Python, a program each: neither the interpreter's lock nor the runtime lets
    one wait for the other."""
    text = """HloModule one
ENTRY main {
  x = f32[8] parameter(0)
  ROOT a = f32[8] custom-call(x), custom_call_target="beside.meet"
}"""
    programs = [executable(text, threads=threads) for _ in range(2)]
    same_twice = [programs[0], programs[0]]
    for pair in (programs, same_twice):
        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda exe: np.asarray(exe(X)).tolist(), pair))
        assert results == [[1.0] * 8] * 2


CHOLESKY = """HloModule two
ENTRY main {
  x = f32[300,300] parameter(0)
  y = f32[300,300] parameter(1)
  a = f32[300,300] cholesky(x), lower=true
  b = f32[300,300] cholesky(y), lower=true
  ROOT r = f32[300,300] subtract(a, b)
}"""


def test_two_factorisations_run_side_by_side():
    """By the costs of the device alone, nothing being asked for."""
    exe = hloom.compile(CHOLESKY, threads=2)
    [t] = sets_of_runs(exe)
    factors = [r for r in t.runs if any(step.kind == "Cholesky" for step in walk(r.thunks))]
    assert len(factors) == 2 and not races(t)
    draw = np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32)
    x = draw @ draw.T + 300 * np.eye(300, dtype=np.float32)
    want = np.asarray(hloom.compile(CHOLESKY, threads=1)(x, 2 * x)).copy()
    for seed in range(1, 4):
        with drawn_order(seed, most_delay_ns=100_000):
            assert np.array_equal(np.asarray(exe(x, 2 * x)), want)

    def delayed():
        with drawn_order(1, most_delay_ns=20_000_000):
            exe(x, 2 * x)

    assert overlaps_within(100, delayed)


def test_two_calls_that_rest_are_under_way_at_once():
    exe = executable(calls("rest", "rest"), scheduler="default")
    assert np.asarray(exe(X)).tolist() == (2 * X).tolist()
    assert overlaps_within(20, lambda: exe(X))
    assert "side by side:\n  main: 3 runs" in exe.as_text("thunks")
    # With one thread, or where least memory is asked for, one after another.
    assert seconds(lambda: executable(calls("rest", "rest"), threads=1)(X)) > 0.29
    alone = executable(calls("rest", "rest"), scheduler="memory")
    assert not sets_of_runs(alone) and "least memory" in alone.as_text("thunks")
    ordered = executable(calls("rest", "rest", "true"), scheduler="default")
    assert not sets_of_runs(ordered) and "main: not concurrent" in ordered.as_text("thunks")


def test_handlers_of_python_keep_their_order():
    seen = []

    def noted(call):
        seen.append(float(call.arguments[0][1]))
        time.sleep(0.002 if len(seen) % 2 else 0)
        call.results[0][:] = call.arguments[0]

    ffi.register("beside.python", noted)
    exe = executable(calls("python", "python"))
    assert len(sets_of_runs(exe)[0].runs) == 3
    for _ in range(5):
        exe(X)
    assert seen == [1.0, -1.0] * 5


def test_concurrent_handlers_of_python_are_under_way_at_once():
    inside: list[int] = []
    together: list[int] = []
    patience = 20.0

    def rests(call):
        """Until another is in it at the same time."""
        inside.append(1)
        together.append(len(inside))
        until = time.monotonic() + patience
        while max(together) < 2 and time.monotonic() < until:
            time.sleep(0.001)
        inside.pop()
        call.results[0][:] = call.arguments[0]

    ffi.register("beside.rests", rests, concurrent=True)
    exe = hloom.compile(calls("rests", "rests"), threads=2)
    assert np.asarray(exe(X)).tolist() == (2 * X).tolist()
    assert max(together) == 2
    # What has effects keeps its order all the same.
    together.clear()
    patience = 0.2
    exe = hloom.compile(calls("rests", "rests", "true"), threads=2)
    exe(X)
    assert together == [1, 1]


@pytest.mark.parametrize("first", [True, False])
def test_the_first_error_stops_the_others(first):
    names = ("fail", "until_cancelled") if first else ("until_cancelled", "fail")
    exe = executable(calls(*names))
    for seed in range(1, 4):
        start = time.perf_counter()
        with drawn_order(seed), pytest.raises(Exception, match="nothing was there"):
            exe(X)
        assert time.perf_counter() - start < 5


def test_what_a_handler_raises_comes_out_of_another_thread():
    def raises(call):
        raise ZeroDivisionError("of a handler")

    ffi.register("beside.raises", raises)
    exe = executable(calls("until_cancelled", "raises"))
    with pytest.raises(Exception, match="of a handler") as caught:
        exe(X)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_interruption_reaches_every_run():
    exe = executable(calls("until_cancelled", "until_cancelled"))
    exe._executor.interruptible = True
    # Who started the tests may have ignored it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.perf_counter()
    try:
        with drawn_order(1), pytest.raises(KeyboardInterrupt):
            exe(X)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.perf_counter() - start < 5
    timer.join()


BRANCHES = """HloModule branches
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
cond {
  p = (s32[], f32[33], f32[33]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(4)
  ROOT l = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[33], f32[33]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[33] get-tuple-element(p), index=1
  y = f32[33] get-tuple-element(p), index=2
  s = f32[33] sort(x), dimensions={0}, to_apply=less
  t = f32[33] sort(y), dimensions={0}, to_apply=less
  m = f32[33] reverse(t), dimensions={0}
  u = f32[33] add(s, m)
  v = f32[33] subtract(x, y)
  ROOT r = (s32[], f32[33], f32[33]) tuple(j, u, v)
}
one {
  x = f32[33] parameter(0)
  s = f32[33] sort(x), dimensions={0}, to_apply=less
  n = f32[33] negate(x)
  t = f32[33] sort(n), dimensions={0}, to_apply=less
  ROOT r = f32[33] add(s, t)
}
two {
  y = f32[33] parameter(0)
  ROOT n = f32[33] negate(y)
}
ENTRY main {
  x = f32[33] parameter(0)
  y = f32[33] parameter(1)
  z = s32[] constant(0)
  init = (s32[], f32[33], f32[33]) tuple(z, x, y)
  loop = (s32[], f32[33], f32[33]) while(init), condition=cond, body=body
  other = (s32[], f32[33], f32[33]) tuple(z, y, x)
  pool = (s32[], f32[33], f32[33]) while(other), condition=cond, body=body
  a = f32[33] get-tuple-element(loop), index=1
  b = f32[33] get-tuple-element(pool), index=2
  k = pred[] parameter(2)
  ROOT c = f32[33] conditional(k, a, b), true_computation=one, false_computation=two
}
"""


def test_loops_and_branches_in_drawn_orders():
    exe = executable(BRANCHES, threads=3)
    found = sets_of_runs(exe)
    assert len(found) > 2 and not any(map(races, found))
    draw = np.random.default_rng(0)
    x, y = (draw.standard_normal(33).astype(np.float32) for _ in range(2))
    module = parse_module(BRANCHES)
    for k in (True, False):
        want = hloom.evaluate(module, x, y, np.bool_(k)).array
        for seed in range(1, 12):
            with drawn_order(seed, most_delay_ns=100_000):
                assert np.array_equal(np.asarray(exe(x, y, np.bool_(k))), want)
    debug = exe.debug(x, y, np.bool_(True), bounds=True)
    assert np.array_equal(np.asarray(debug.result), hloom.evaluate(module, x, y, np.True_).array)


def test_many_threads_at_once():
    exe = executable(BRANCHES, threads=4)
    x, y = np.linspace(3, -3, 33, dtype=np.float32), np.ones(33, np.float32)
    want = np.asarray(executable(BRANCHES, threads=1)(x, y, np.True_)).copy()
    wrong = []

    def work():
        for _ in range(20):
            if not np.array_equal(np.asarray(exe(x, y, np.True_)), want):
                wrong.append(1)

    with drawn_order(5):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong


def test_after_a_fork():
    exe = executable(BRANCHES)
    x = np.ones(33, np.float32)
    want = np.asarray(exe(x, x, np.True_)).copy()
    child = os.fork()
    if child == 0:
        same = np.array_equal(np.asarray(exe(x, x, np.True_)), want)
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_saved_program_runs_side_by_side():
    from hloom.program.saved import program_from_bytes, program_to_bytes
    from hloom.runtime.executor import Executor

    exe = executable(calls("rest", "rest"))
    again = Executor(program_from_bytes(program_to_bytes(exe.program)), 2)
    [result] = again.run([X])
    assert np.asarray(result).tolist() == (2 * X).tolist()
    assert overlaps_within(20, lambda: again.run([X]))


def test_a_race_is_an_error_of_the_debug_executor():
    exe = executable(calls("rest", "rest"))
    [t] = sets_of_runs(exe)
    wrong = replace(t, runs=tuple(r._replace(waits=()) for r in t.runs))
    exe.program.thunks = (wrong,)
    with pytest.raises(HloError, match="may run at once, and share"):
        exe.debug(X, bounds=True)


@pytest.mark.parametrize("value", ["memory_optimized", "CPU_SCHEDULER_TYPE_CONCURRENCY_OPTIMIZED"])
def test_the_option(value):
    exe = hloom.compile(BRANCHES, options={"cpu_scheduler_type": value}, threads=2)
    assert bool(sets_of_runs(exe)) is value.startswith("CPU")
    with pytest.raises(HloError, match="cpu_scheduler_type is 'fast'"):
        hloom.compile(BRANCHES, options={"cpu_scheduler_type": "fast"})
