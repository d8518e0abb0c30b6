"""Compiled programs under load (for longer: `python -m tests.runtime.test_stress --runs 1000`)."""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import threading
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hloom.base.diagnostics import HloError
from hloom.base.guarding import GUARDING
from hloom.compiler import compile_module
from hloom.executable import Executable
from hloom.interp import random_arguments
from hloom.ir.text import parse_module
from hloom.runtime.ffi import Call, HandlerError, register
from tests.runtime.native_parts import MemoryStatistics, library

PRODUCT = """
HloModule product
ENTRY main {
  x = f32[96,64] parameter(0)
  y = f32[64,80] parameter(1)
  d = f32[96,80] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[96,80] tanh(d)
}
"""
LOOP = """
HloModule loop
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
body {
  s = (s32[], f32[2000]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  x = f32[2000] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(k, one)
  zero = f32[] constant(0)
  total = f32[] reduce(x, zero), dimensions={0}, to_apply=add
  spread = f32[2000] broadcast(total), dimensions={}
  half = f32[] constant(0.001)
  halves = f32[2000] broadcast(half), dimensions={}
  part = f32[2000] multiply(spread, halves)
  y = f32[2000] subtract(x, part)
  ROOT out = (s32[], f32[2000]) tuple(next, y)
}
condition {
  s = (s32[], f32[2000]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT less = pred[] compare(k, n), direction=LT
}
ENTRY main {
  x = f32[2000] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[2000]) tuple(zero, x)
  end = (s32[], f32[2000]) while(start), condition=condition, body=body
  ROOT out = f32[2000] get-tuple-element(end), index=1
}
"""
ORDER = """
HloModule order
less { a = f32[] parameter(0)  b = f32[] parameter(1)
       c = s32[] parameter(2)  d = s32[] parameter(3)
       ROOT e = pred[] compare(a, b), direction=LT }
ENTRY main {
  x = f32[33,47] parameter(0)
  k = s32[33,47] iota(), iota_dimension=1
  ROOT s = (f32[33,47], s32[33,47]) sort(x, k), dimensions={1}, is_stable=true, to_apply=less
}
"""
WIDE = """
HloModule wide
ENTRY main {
  x = f32[300000] parameter(0)
  y = f32[300000] exponential(x)
  z = f32[300000] add(y, x)
  ROOT r = f32[300000] divide(z, y)
}
"""
CHOICE = """
HloModule choice
double { a = f32[301] parameter(0)  ROOT b = f32[301] add(a, a) }
square { a = f32[301] parameter(0)  ROOT b = f32[301] multiply(a, a) }
ENTRY main {
  k = s32[] parameter(0)
  x = f32[301] parameter(1)
  ROOT c = f32[301] conditional(k, x, x), branch_computations={double, square}
}
"""
SOLVED = """
HloModule solved
ENTRY main {
  a = f64[3,5,5] parameter(0)
  ROOT c = f64[3,5,5] cholesky(a), lower=true
}
"""
GIVEN = """
HloModule given, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY main {
  x = f32[40000] parameter(0)
  y = f32[40000] parameter(1)
  ROOT z = f32[40000] add(x, y)
}
"""
FAILING = """
HloModule failing
ENTRY main {
  x = f32[64] parameter(0)
  y = f32[64] sine(x)
  ROOT r = f32[64] custom-call(y), custom_call_target="hloom.stress",
    api_version=API_VERSION_TYPED_FFI
}
"""
MIXED = {"product": PRODUCT, "loop": LOOP, "order": ORDER, "wide": WIDE, "choice": CHOICE,
         "solved": SOLVED}  # fmt: skip

Leaves = list[np.ndarray[Any, Any]]


@cache
def program(text: str, threads: int | None = None) -> tuple[Executable, Leaves]:
    """A program and arguments for it."""
    module = parse_module(text)
    arguments = [leaf.array for a in random_arguments(module, 3) for leaf in a.leaves()]
    return compile_module(module, threads=threads), arguments


def bits(made: Any) -> bytes:
    """All bytes of a nested result."""
    if isinstance(made, tuple):
        return b"".join(bits(x) for x in made)
    return np.asarray(made).tobytes()


def memory() -> MemoryStatistics:
    """What the process's arena holds."""
    numbers = (ctypes.c_int64 * 8)()
    library().hl_arena_statistics(None, numbers)
    return MemoryStatistics(*numbers)


def resident_bytes() -> int:
    """Memory of this process that is in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def mappings() -> int:
    return Path("/proc/self/maps").read_text().count("\n")


needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")


def many_threads(threads: int, runs: int) -> list[str]:
    """What went wrong when threads ran all programs again and again at once."""
    made = {name: program(text) for name, text in MIXED.items()}
    wanted = {name: bits(exe(*given)) for name, (exe, given) in made.items()}
    wrong: list[str] = []
    begin = threading.Barrier(threads)

    def work(number: int) -> None:
        names = sorted(made)
        begin.wait()
        try:
            for k in range(runs):
                name = names[(number + k) % len(names)]
                exe, given = made[name]
                if bits(exe(*given)) != wanted[name]:
                    wrong.append(f"{name} in thread {number}, run {k}")
        except BaseException as error:
            wrong.append(f"thread {number}: {error!r}")

    workers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return wrong


def test_threads_at_once():
    assert many_threads(8, 60) == []
    assert memory().blocks_in_use < 100


@pytest.mark.parametrize("name", sorted(MIXED))
def test_results_do_not_depend_on_the_number_of_threads(name: str):
    """Bit for bit."""
    found = {}
    for threads in (1, 2, 3, 4, 8):
        exe, given = program(MIXED[name], threads)
        found[threads] = bits(exe(*given))
    assert len(set(found.values())) == 1, {n: hash(b) for n, b in found.items()}


def grown_by(runs: int) -> tuple[int, int]:
    """Blocks still in use, and bytes that the process has grown by, after runs of all programs."""
    made = [program(text) for text in MIXED.values()]

    def some(count: int) -> None:
        for k in range(count):
            exe, given = made[k % len(made)]
            exe(*given)

    some(120)
    gc.collect()
    blocks, before = memory().blocks_in_use, resident_bytes()
    some(runs)
    gc.collect()
    return memory().blocks_in_use - blocks, resident_bytes() - before


@needs_proc
def test_runs_leave_nothing():
    """10,000 runs; a page for each would be 40 MB, 100 bytes for each 1 MB."""
    blocks, grown = grown_by(10_000)
    assert blocks == 0
    assert grown < 1_000_000


def made_and_dropped(count: int) -> tuple[int, int, int, int]:
    """What the process has more of after programs were compiled and dropped: files, mappings,
    arena blocks, bytes."""

    def one(k: int) -> None:
        text = CHOICE.replace("301", str(300 + k % 7)).replace("multiply", "subtract")
        module = parse_module(text)
        exe = compile_module(module, threads=1)
        x = np.arange(300 + k % 7, dtype=np.float32)
        assert np.asarray(exe(np.int32(0), x))[-1] == 2 * x[-1]

    for k in range(14):
        one(k)
    gc.collect()
    before = open_files(), mappings(), memory().blocks_in_use, resident_bytes()
    for k in range(count):
        one(k)
    gc.collect()
    after = open_files(), mappings(), memory().blocks_in_use, resident_bytes()
    return tuple(b - a for a, b in zip(before, after))  # type: ignore[return-value]


@needs_proc
def test_programs_that_come_and_go_leave_nothing():
    files, maps, blocks, grown = made_and_dropped(60)
    assert files == 0
    assert maps <= 3 or GUARDING  # freed blocks stay forbidden for a while
    assert blocks == 0
    assert grown < 8_000_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("threads", [2, 4])
def test_fork_while_a_pool_exists(threads: int):
    exe, given = program(WIDE, threads)
    wanted = bits(exe(*given))
    for _ in range(3):
        child = os.fork()
        if not child:
            try:
                os._exit(0 if all(bits(exe(*given)) == wanted for _ in range(5)) else 1)
            finally:
                os._exit(2)
        assert bits(exe(*given)) == wanted
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_fork_while_programs_run():
    """A child that runs programs itself, forked off while other threads are inside of some."""
    exe, given = program(PRODUCT, 2)
    wanted = bits(exe(*given))
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            exe(*given)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(10):
            child = os.fork()
            if not child:
                try:
                    os._exit(0 if bits(exe(*given)) == wanted else 1)
                finally:
                    os._exit(2)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def test_failures_leave_nothing():
    """A program that fails in the middle gives its memory back and runs again."""
    fails = [True]

    def handler(call: Call) -> None:
        if fails[0]:
            raise HandlerError("not today", "UNAVAILABLE")
        call.results[0][:] = call.arguments[0] * 2

    register("hloom.stress", handler)
    exe, given = program(FAILING, 2)
    with pytest.raises(HloError, match="not today"):
        exe(*given)
    gc.collect()
    before = memory().blocks_in_use
    for _ in range(100):
        with pytest.raises(HloError, match="not today"):
            exe(*given)
    gc.collect()
    assert memory().blocks_in_use == before
    fails[0] = False
    assert np.allclose(np.asarray(exe(*given)), 2 * np.sin(given[0]), rtol=1e-5)


def test_wrong_arguments_leave_nothing():
    exe, given = program(PRODUCT)
    exe(*given)
    before = memory().blocks_in_use
    for wrong in ([given[0]], [given[0], given[0]], [given[0], given[1].astype(np.int32)]):
        for _ in range(50):
            with pytest.raises(HloError):
                exe(*wrong)
    gc.collect()
    assert memory().blocks_in_use == before
    assert bits(exe(*given)) == bits(exe(*given))


def test_donated_buffers_go_round():
    """Each result is given to the next run; the memory in use does not grow."""
    exe, (x, y) = program(GIVEN)
    first = exe(x, y)
    assert np.array_equal(np.asarray(first), x + y)
    state = exe(x * 0, y)
    blocks = memory().blocks_in_use
    for _ in range(500):
        given = state
        state = exe(given, y)
        assert given.is_deleted
    assert memory().blocks_in_use == blocks
    wanted = x * 0
    for _ in range(501):
        wanted = wanted + y
    assert np.array_equal(np.asarray(state), wanted)
    with pytest.raises(HloError, match="deleted"):
        exe(given, y)


def test_donation_from_many_threads():
    """A buffer that several threads donate at once goes to one of them; the others are told."""
    exe, (x, y) = program(GIVEN)
    wanted = bits(exe(exe(x, y), y))
    for _ in range(30):
        shared = exe(x, y)
        got: list[str] = []
        begin = threading.Barrier(4)

        def work(shared: Any = shared, got: list[str] = got, begin: Any = begin) -> None:
            begin.wait()
            try:
                got.append("same" if bits(exe(shared, y)) == wanted else "wrong")
            except HloError as error:
                got.append("told" if "deleted" in str(error) else repr(error))

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert sorted(got) == ["same", "told", "told", "told"]


def main() -> None:
    """The same for longer, with what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    print("8 threads:", many_threads(8, runs) or "nothing wrong")
    print("blocks, bytes grown by:", grown_by(10 * runs))
    print("files, mappings, blocks, bytes grown by:", made_and_dropped(runs))


if __name__ == "__main__":
    main()
