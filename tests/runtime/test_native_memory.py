"""Laws of the arena: blocks are aligned, apart, counted, cached, limited, and never lost."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import threading
from itertools import pairwise

import pytest

from hloom.base.diagnostics import UsageError
from hloom.base.guarding import GUARDING
from hloom.runtime.native import ExecutionError, library
from tests.runtime.native_parts import Memory

pytestmark = pytest.mark.skipif(GUARDING, reason="under guard no block is cached, aligned or lent")


@pytest.fixture
def memory():
    with Memory() as memory:
        yield memory


def test_random_use(memory):
    random_ = random.Random(5)
    blocks: dict[int, int] = {}
    for _ in range(3000):
        if blocks and random_.random() < 0.5:
            address = random_.choice(list(blocks))
            size = blocks.pop(address)
            # Nobody else has written here.
            if size:
                assert ctypes.string_at(address, 1)[0] == address >> 6 & 0xFF
                assert ctypes.string_at(address + size - 1, 1)[0] == address >> 6 & 0xFF
            memory.free(address)
        else:
            size = int(2 ** random_.uniform(0, 23)) - 1
            address = memory.allocate(size)
            assert address % (2 << 20 if size >= 2 << 20 else 64) == 0
            if size:
                ctypes.memset(address, address >> 6 & 0xFF, size)
            blocks[address] = size
        got = memory.statistics()
        assert got.blocks_in_use == len(blocks)
        assert sum(blocks.values()) <= got.bytes_in_use <= got.peak_bytes_in_use
    ordered = sorted(blocks.items())
    assert all(a + size <= b for (a, size), (b, _) in pairwise(ordered))
    got = memory.statistics()
    assert got.cache_hits > 300
    for address in blocks:
        memory.free(address)
    memory.trim()
    got = memory.statistics()
    assert (got.bytes_in_use, got.bytes_cached, got.blocks_in_use) == (0, 0, 0)


@pytest.mark.parametrize("size", [0, 1, 64, 65, 511, 513, 1000, 2**20 + 1, 2**21, 2**21 + 1, 2**25])
def test_little_is_wasted(memory, size):
    address = memory.allocate(size)
    got = memory.statistics().bytes_in_use
    step = 64 if size < 2**21 else 2**21
    assert size <= got <= max(step, size * 9 // 8 + step - 1)
    memory.free(address)


def test_a_freed_block_comes_back(memory):
    for size in (100, 5000, 3 << 20):
        address = memory.allocate(size)
        memory.free(address)
        assert memory.allocate(size - 10) == address
        assert memory.statistics().bytes_cached == 0
        memory.free(address)
        memory.trim()


def test_the_cache_is_bounded(memory):
    memory.set_limits(cache_bytes=10_000)
    blocks = [memory.allocate(4000) for _ in range(10)]
    for address in blocks:
        memory.free(address)
    assert 0 < memory.statistics().bytes_cached <= 10_000
    # The last freed stay.
    assert memory.allocate(4000) == blocks[-1]
    memory.free(blocks[-1])
    memory.trim(5000)
    assert memory.statistics().bytes_cached == 4096


def test_what_does_not_fit_the_cache_is_lent_not_lost(memory):
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size = physical // 5  # over the eighth that is kept, and only touched at its ends
    first = memory.allocate(size)
    for at in (first, first + size - 1):
        ctypes.memset(at, 7, 1)
    memory.free(first)
    assert memory.allocate(size) == first
    assert memory.statistics().cache_hits == 1
    ctypes.memset(first, 9, 1)
    assert ctypes.string_at(first, 1) == b"\x09"
    others = [memory.allocate(size) for _ in range(3)]
    for address in (first, *others):
        memory.free(address)
    assert physical // 8 < memory.statistics().bytes_cached <= physical // 2
    memory.set_limits(cache_bytes=physical // 8)
    assert memory.statistics().bytes_cached <= physical // 8


def test_the_limit_holds(memory):
    memory.set_limits(limit_bytes=10 << 20)
    first = memory.allocate(6 << 20)
    with pytest.raises(ExecutionError, match="out of memory: 6291456 bytes") as caught:
        memory.allocate(6 << 20)
    assert caught.value.status == 8
    memory.free(first)
    # What is cached makes room.
    second = memory.allocate(9 << 20)
    assert memory.statistics().bytes_cached == 0
    memory.free(second)


@pytest.mark.parametrize("size", [-1, 2**45, 2**62, -(2**63)])
def test_impossible_sizes_are_errors(memory, size):
    with pytest.raises(ExecutionError, match="out of memory"):
        memory.allocate(size)
    assert memory.statistics().blocks_in_use == 0


def test_wrong_frees_are_errors(memory):
    address = memory.allocate(1000)
    with Memory() as other, pytest.raises(UsageError, match="no block in use"):
        other.free(address)
    with pytest.raises(UsageError, match="no block in use"):
        memory.free(address + 8)
    memory.free(address)
    with pytest.raises(UsageError, match="no block in use"):
        memory.free(address)


def test_memory_in_use_is_not_closed():
    memory = Memory()
    address = memory.allocate(10)
    with pytest.raises(UsageError, match="1 blocks are in use"):
        memory.close()
    memory.free(address)
    memory.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_forks_while_other_threads_allocate():
    """The child can allocate, whoever was inside the arena when it was made."""
    native, stop = library(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            for size in (100, 3_000_000, 70_000):
                native.hl_arena_free(None, native.hl_arena_alloc(None, size))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(100):
            child = os.fork()
            if not child:
                signal.alarm(120)  # ends a child that waits for nobody
                native.hl_arena_free(None, native.hl_arena_alloc(None, 3_000_000))
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for worker in workers:
            worker.join()
