"""Regions are run completely, once, whoever helps: nested, shared, after a fork, at any size."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hloom.base.diagnostics import UsageError
from hloom.runtime.library import library
from hloom.runtime.native import Pool
from hloom.runtime.processors import cgroup_quota, granted_threads
from tests.runtime.native_parts import Context
from tests.runtime.native_programs import regions, run_regions

RANGE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@pytest.fixture(scope="module")
def loaded():
    return regions()


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize(("n", "grain"), [(0, 1), (1, 1), (7, 1), (1000, 33), (1000, 5000)])
def test_every_step_runs_once(loaded, threads, n, grain):
    with Pool(threads) as pool, Context(pool) as context:
        for ns in (-1, 0, 10**4, 10**7):
            assert run_regions(context, loaded, n, grain, 20, ns).tolist() == [20] * n


def chunks(pool: Pool | None, n: int, grain: int) -> list[tuple[int, int]]:
    """The chunks of one region, in the order of their beginnings."""
    seen = []
    with Context(pool) as context:
        function = RANGE(lambda _, begin, end: seen.append((begin, end)))
        library().hl_parallel_for(context.handle, function, None, n, grain)
    return sorted(seen)


@pytest.mark.parametrize("threads", [1, 3])
def test_chunks_do_not_depend_on_threads(threads):
    with Pool(threads) as pool:
        assert chunks(pool, 10, 4) == [(0, 4), (4, 8), (8, 10)]
        assert chunks(pool, 8, 4) == [(0, 4), (4, 8)]
        assert chunks(pool, 3, 0) == [(0, 1), (1, 2), (2, 3)]
        assert chunks(pool, -5, 1) == []
        assert chunks(pool, 2**62 + 1, 2**61) == [
            (0, 2**61),
            (2**61, 2**62),
            (2**62, 2**62 + 1),
        ]


def test_more_chunks_than_a_segment_counts():
    with Pool(2) as pool:
        assert chunks(pool, 70_001, 1) == [(k, k + 1) for k in range(70_001)]


@pytest.mark.parametrize("n", [8, 9])
def test_each_thread_has_consecutive_chunks(n):
    """So that it meets in one region what it wrote in the one before."""
    whose: dict[int, int] = {}
    together = threading.Barrier(2)

    def chunk(_: object, begin: int, end: int) -> None:
        whose[begin] = threading.get_native_id()
        if len(whose) <= 8:  # in step, so that no thread is done before the other
            together.wait(60)

    with Pool(2) as pool, Context(pool) as context:
        library().hl_parallel_for_ns(context.handle, RANGE(chunk), None, n, 1, 10**9)
    own = [k for k in range(n) if whose[k] == threading.get_native_id()]
    assert own in ([0, 1, 2, 3], [0, 1, 2, 3, 4])


def test_one_thread_makes_none():
    before = threading.active_count(), len(os.listdir("/proc/self/task"))
    with Pool(1) as pool:
        chunks(pool, 100, 1)
        assert pool.workers == 0
        assert (threading.active_count(), len(os.listdir("/proc/self/task"))) == before


def test_workers_are_made_late_help_and_fall_asleep():
    with Pool(3) as pool:
        assert pool.workers == 0
        seen = set()

        def slow(_: object, begin: int, end: int) -> None:
            seen.add(threading.get_ident())
            until = time.monotonic() + (60 if begin else 0.01)  # who helps comes after the first
            while len(seen) < 2 and time.monotonic() < until:
                time.sleep(0.001)

        with Context(pool) as context:
            library().hl_parallel_for(context.handle, RANGE(slow), None, 12, 1)
        assert pool.workers == 2
        assert len(seen) > 1
        until = time.monotonic() + 60
        while pool.sleeping != 2 and time.monotonic() < until:
            time.sleep(0.005)
        assert pool.sleeping == 2
        # They are not woken for little...
        with Context(pool) as context:
            nothing = RANGE(lambda *_: None)
            library().hl_parallel_for_ns(context.handle, nothing, None, 12, 1, 1000)
        assert pool.sleeping == 2
        # ... but for much.
        seen.clear()
        with Context(pool) as context:
            library().hl_parallel_for_ns(context.handle, RANGE(slow), None, 12, 1, 10**8)
        assert len(seen) > 1


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor")
def test_a_woken_worker_leaves_the_processor_of_who_woke_it():
    """The other processor is busy, so that the system starts the worker where the caller is."""
    ours = os.sched_getaffinity(0)
    caller, other = sorted(ours)[:2]
    where = ctypes.CDLL(None).sched_getcpu
    first: dict[int, int] = {}

    def chunk(*_):
        first.setdefault(threading.get_native_id(), where())
        time.sleep(0.002)

    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    own = threading.get_native_id()
    try:
        os.sched_setaffinity(burner.pid, {other})
        os.sched_setaffinity(own, {caller})
        together = tries = 0
        with Pool(2) as pool, Context(pool) as context:
            while tries < 20:
                first.clear()
                library().hl_parallel_for_ns(context.handle, RANGE(chunk), None, 8, 1, 10**9)
                worker = next((t for t in first if t != own), None)
                if worker is not None:
                    together += tries > 0 and first[worker] == caller
                    # As what it inherited of the caller is not all that it may use.
                    os.sched_setaffinity(worker, {caller})
                    until = time.monotonic() + 5
                    while pool.sleeping != 1 and time.monotonic() < until:
                        time.sleep(0.002)
                    os.sched_setaffinity(worker, {caller, other})
                tries += 1
            assert worker is not None and os.sched_getaffinity(worker) == {caller, other}
        assert together < 10
    finally:
        os.sched_setaffinity(own, ours)
        burner.kill()
        burner.wait()


def test_nested_regions_run_where_they_are_met():
    counts = np.zeros((6, 50), np.int64)
    with Pool(4) as pool, Context(pool) as context:

        def outer(_: object, begin: int, end: int) -> None:
            for row in range(begin, end):

                def inner(_: object, first: int, last: int, row: int = row) -> None:
                    counts[row, first:last] += 1

                library().hl_parallel_for(context.handle, RANGE(inner), None, 50, 7)

        for _ in range(20):
            library().hl_parallel_for(context.handle, RANGE(outer), None, 6, 1)
    assert counts.tolist() == [[20] * 50] * 6


def test_many_programs_share_a_pool(loaded):
    wrong = []
    with Pool(4) as pool:

        def program(seed: int) -> None:
            n = 100 + 37 * seed
            with Context(pool) as context:
                for i in range(100):
                    got = run_regions(context, loaded, n, 1 + (i + seed) % 40, 25)
                    if (got != 25).any():
                        wrong.append((seed, i))

        threads = [threading.Thread(target=program, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


def test_a_context_inside_a_region_of_another(loaded):
    with Pool(3) as pool, Context(pool) as outside:
        sums = []

        def step(_: object, begin: int, end: int) -> None:
            with Context(pool) as context:
                sums.append(int(run_regions(context, loaded, 64, 3, 10).sum()))

        library().hl_parallel_for_ns(outside.handle, RANGE(step), None, 12, 1, 10**9)
    assert sums == [640] * 12


FORK = """
import os, sys
from hloom.runtime.native import Pool
from tests.runtime.native_parts import Context
from tests.runtime.native_programs import regions, run_regions
pool, loaded = Pool(3), regions()
context = Context(pool)
assert run_regions(context, loaded, 1000, 10, 50, 10**6).sum() == 50000
assert pool.workers == 2
child = os.fork()
if child == 0:
    assert pool.workers == 0
    for _ in range(3):
        assert run_regions(context, loaded, 1000, 10, 50, 10**6).sum() == 50000
    assert pool.workers == 2
    pool.close()
    os._exit(7)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 7, status
assert run_regions(context, loaded, 1000, 10, 50, 10**6).sum() == 50000
print("ended")
"""
INTERRUPT = """
import os, signal, sys, threading, time
from hloom.runtime.beside_python import beside_python
from hloom.runtime.native import Pool
from tests.runtime.native_parts import Context
from tests.runtime.native_programs import regions, run_regions
pool, loaded = Pool(2), regions()
context = Context(pool)
run = context.execute
context.__class__.execute = lambda self, main, buffers: beside_python(
    lambda: run(main, buffers) or 0, self.cancel
)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have ignored it
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    run_regions(context, loaded, 1000, 10, 10**15)
except KeyboardInterrupt:
    context.__class__.execute = run.__func__
    assert run_regions(context, loaded, 1000, 10, 5).sum() == 5000
    print("interrupted")
"""
IMPATIENT = """
import ctypes, os, signal, threading, time
from hloom.runtime.beside_python import beside_python
from tests.runtime.native_parts import Context
ended = []
@ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
def main(context, buffers):
    for _ in range(3):
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.4)
    ended.append(True)
    return 0
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have ignored it
address = ctypes.cast(main, ctypes.c_void_p).value
try:
    context = Context()
    beside_python(lambda: context.execute(address, (ctypes.c_void_p * 1)()) or 0, context.cancel)
except KeyboardInterrupt:
    print("interrupted", ended)
"""
LEAVE = """
import threading, time
from hloom.runtime.native import Pool
from tests.runtime.native_parts import Context
from tests.runtime.native_programs import regions, run_regions
pool, loaded = Pool(3), regions()
thread = threading.Thread(
    target=lambda: run_regions(Context(pool), loaded, 1000, 10, 10**15), daemon=True
)
thread.start()
time.sleep(0.2)
print("left")
"""


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (FORK, "ended"),
        (INTERRUPT, "interrupted"),
        (IMPATIENT, "interrupted [True]"),
        (LEAVE, "left"),
    ],
    ids=["fork", "interrupt", "impatient", "leave"],
)
def test_processes(code, says):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, says), done.stderr


def test_wrong_numbers_of_threads():
    for threads in (0, -1, 1025):
        with pytest.raises(UsageError, match="1 to 1024"):
            Pool(threads)


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/b/cpu.max": "max 100000"}, None),
        ({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/b/cpu.max": "250000 100000"}, 2.5),
        ({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/cpu.max": "50000 100000"}, 0.5),
        (
            {
                "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/docker/1",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "300000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            3.0,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
    ],
)
def test_quota(tmp_path, files, quota):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cgroup_quota(tmp_path) == quota
    most = len(os.sched_getaffinity(0))
    assert granted_threads(tmp_path) == max(1, min(most, int(quota or most)))
