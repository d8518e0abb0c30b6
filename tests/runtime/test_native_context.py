"""Programs are entered, fail, stop, call the host and draw random states as they should."""

from __future__ import annotations

import ctypes
import resource
import threading

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hloom.runtime.library import library
from hloom.runtime.native import ExecutionError, Pool, Queue
from tests.processor_time import at_most, timed
from tests.runtime.native_parts import Context, LoadedObjects, Memory, RandomState
from tests.runtime.native_programs import emit, pointers, regions, run_regions

START = 0x7012395
PROGRAMS = """
declare i32 @hl_call_host(ptr, i64, ptr)
declare i32 @hl_rng_get_and_update_state(ptr, ptr, i64, i64)
declare i32 @hl_infeed(ptr, ptr, ptr, i64)
declare i32 @hl_outfeed(ptr, ptr, ptr, i64)
declare i32 @hl_set_error_text(ptr, i32, ptr)
declare ptr @hl_alloc(ptr, i64)
declare void @hl_free(ptr, ptr)
@two = internal constant [2 x i64] [i64 8, i64 3]
@words = internal constant [9 x i8] c"bad luck\\00"
define i32 @call_host(ptr %context, ptr %buffers) {
  %number = load ptr, ptr %buffers
  %id = load i64, ptr %number
  %status = call i32 @hl_call_host(ptr %context, i64 %id, ptr %buffers)
  ret i32 %status
}
define i32 @draw(ptr %context, ptr %buffers) {
  %out = load ptr, ptr %buffers
  %s = call i32 @hl_rng_get_and_update_state(ptr %context, ptr %out, i64 -1, i64 -1)
  ret i32 %s
}
define i32 @feed(ptr %context, ptr %buffers) {
  %s = call i32 @hl_infeed(ptr %context, ptr %buffers, ptr @two, i64 2)
  %wrong = icmp ne i32 %s, 0
  br i1 %wrong, label %failed, label %on
failed:
  ret i32 %s
on:
  %t = call i32 @hl_outfeed(ptr %context, ptr %buffers, ptr @two, i64 2)
  ret i32 %t
}
define i32 @fail(ptr %context, ptr %buffers) {
  %s = call i32 @hl_set_error_text(ptr %context, i32 3, ptr @words)
  %t = call i32 @hl_set_error_text(ptr %context, i32 13, ptr @words)
  ret i32 0
}
define i32 @nine(ptr %context, ptr %buffers) {
  ret i32 9
}
define i32 @memory(ptr %context, ptr %buffers) {
  %number = load ptr, ptr %buffers
  %size = load i64, ptr %number
  %block = call ptr @hl_alloc(ptr %context, i64 %size)
  call void @hl_free(ptr %context, ptr %block)
  %address = ptrtoint ptr %block to i64
  store i64 %address, ptr %number
  ret i32 0
}
define i32 @divide(ptr %context, ptr %buffers) {
  %numbers = load ptr, ptr %buffers
  %second = getelementptr double, ptr %numbers, i64 1
  %x = load double, ptr %numbers
  %y = load double, ptr %second
  %q = fdiv double %x, %y
  store double %q, ptr %numbers
  ret i32 0
}
"""


@pytest.fixture(scope="module")
def loaded():
    return LoadedObjects({"programs": emit(PROGRAMS)})


def run(context: Context, loaded: LoadedObjects, name: str, *arrays: np.ndarray) -> None:
    context.execute(loaded.symbol(name), pointers(*arrays))


def test_the_first_error_stays_and_is_forgotten(loaded):
    with Context() as context:
        with pytest.raises(ExecutionError, match="bad luck") as caught:
            run(context, loaded, "fail")
        assert caught.value.status == 3
        with pytest.raises(ExecutionError, match="the program ended with status 9") as caught:
            run(context, loaded, "nine")
        assert caught.value.status == 9
        run(context, loaded, "divide", np.array([1.0, 4.0]))


def test_host_functions(loaded):
    calls = []

    def note(number: int, buffers: int) -> None:
        place = ctypes.c_void_p.from_address(buffers).value
        assert place is not None
        calls.append((number, ctypes.c_int64.from_address(place).value))

    def wrong(number: int, buffers: int) -> None:
        raise LookupError("no such thing")

    with Context(host_functions=[wrong, note]) as context:
        run(context, loaded, "call_host", np.array([1]))
        assert calls == [(1, 1)]
        with pytest.raises(LookupError, match="no such thing"):
            run(context, loaded, "call_host", np.array([0]))
        for number in (2, -1):
            with pytest.raises(ExecutionError, match=f"host function {number}; 2 are set"):
                run(context, loaded, "call_host", np.array([number]))
        run(context, loaded, "call_host", np.array([1]))
        assert len(calls) == 2


def test_a_context_runs_one_program_at_a_time(loaded):
    failures = []

    def again(number: int, buffers: int) -> None:
        with pytest.raises(ExecutionError, match="already running"):
            run(context, loaded, "nine")
        failures.append(number)

    with Context(host_functions=[again]) as context:
        run(context, loaded, "call_host", np.array([0]))
    assert failures == [0]


def test_cancelled():
    loaded, context = regions(), Context()
    timer = threading.Timer(0.1, context.cancel)
    timer.start()
    with at_most(10), pytest.raises(ExecutionError, match="cancelled") as caught:
        run_regions(context, loaded, 1000, 1000, 10**15)
    assert caught.value.status == 1
    context.cancel()
    with pytest.raises(ExecutionError, match="cancelled before it began"):
        run_regions(context, loaded, 10, 10)
    assert run_regions(context, loaded, 10, 10).tolist() == [1] * 10


def test_subnormal_numbers_count_as_zero_and_the_callers_mode_comes_back(loaded):
    with Context() as context:
        numbers = np.array([5e-324, 1.0])
        run(context, loaded, "divide", numbers)
        assert numbers[0] == 0
    assert numbers[1:] * 5e-324 == 5e-324


def test_memory_of_a_program(loaded):
    with Memory(limit_bytes=1 << 20) as memory, Context(memory=memory) as context:
        number = np.array([1000])
        run(context, loaded, "memory", number)
        assert number[0] % 64 == 0
        assert memory.statistics().allocations == 1
        with pytest.raises(ExecutionError, match="out of memory: 5000000 bytes"):
            run(context, loaded, "memory", np.array([5_000_000]))
        with pytest.raises(ExecutionError, match="out of memory"):
            run(context, loaded, "memory", np.array([-1]))


def test_random_state_of_the_page():
    state = RandomState()
    assert [state.next(2) for _ in range(3)] == [(START, 0), (START + 2, 0), (START + 4, 0)]
    state = RandomState()
    assert [state.next(-0x7012396) for _ in range(2)] == [(START, 0), (2**64 - 1, 2**64 - 1)]


def test_random_state_from_many_threads(loaded):
    state = RandomState()
    delta = (1 << 64) + 12345

    def draw() -> None:
        for _ in range(1000):
            state.next(delta)

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    low, high = state.next(0)
    assert low + (high << 64) == START + 8000 * delta
    words = np.zeros(2, np.uint64)
    with Context(random=state) as context:
        run(context, loaded, "draw", words)
        run(context, loaded, "draw", words)
    assert int(words[0]) + (int(words[1]) << 64) == START + 8000 * delta - 1
    with Context() as context, pytest.raises(ExecutionError, match="has no random state"):
        run(context, loaded, "draw", words)


def test_feeds(loaded):
    infeed, outfeed = Queue(), Queue(capacity=1)
    a, b = np.zeros(8, np.uint8), np.zeros(3, np.uint8)
    with Context(infeed=infeed, outfeed=outfeed, feed_timeout_s=0.05) as context:
        infeed.push([b"12345678", b"abc"])
        run(context, loaded, "feed", a, b)
        assert (bytes(a), bytes(b)) == (b"12345678", b"abc")
        assert (len(infeed), len(outfeed)) == (0, 1)
        with pytest.raises(ExecutionError, match=r"infeed: waited for 0\.05 s in vain"):
            run(context, loaded, "feed", a, b)
        infeed.push([b"8765432\0", b"\0\1\2"])
        with pytest.raises(ExecutionError, match=r"outfeed: waited for 0\.05 s in vain"):
            run(context, loaded, "feed", a, b)
        assert outfeed.pop() == [b"12345678", b"abc"]
        infeed.push([b"1234567", b"abc"])
        with pytest.raises(ExecutionError, match="not of the number and sizes"):
            run(context, loaded, "feed", a, b)
        assert infeed.pop() == [b"1234567", b"abc"]
    with Context() as context, pytest.raises(ExecutionError, match="has no infeed"):
        run(context, loaded, "feed", a, b)


def test_a_program_waits_for_its_feed_and_can_be_stopped(loaded):
    infeed, outfeed = Queue(), Queue()
    a, b = np.zeros(8, np.uint8), np.zeros(3, np.uint8)
    with Context(infeed=infeed, outfeed=outfeed) as context:
        threading.Timer(0.05, infeed.push, [[b"ABCDEFGH", b"xyz"]]).start()
        run(context, loaded, "feed", a, b)
        assert outfeed.pop() == [b"ABCDEFGH", b"xyz"]
        threading.Timer(0.05, context.cancel).start()
        with pytest.raises(ExecutionError, match="cancelled"):
            run(context, loaded, "feed", a, b)
        threading.Timer(0.05, infeed.end).start()
        with pytest.raises(ExecutionError, match="the queue was closed"):
            run(context, loaded, "feed", a, b)


def test_queues():
    queue = Queue(capacity=2)
    queue.push([b"\0" * 5, b"", b"z"])
    queue.push([b"x"] * 40)
    with pytest.raises(ExecutionError, match="push: time is up"):
        queue.push([], timeout_s=0.02)
    assert queue.pop() == [b"\0" * 5, b"", b"z"]
    assert queue.pop() == [b"x"] * 40
    with pytest.raises(ExecutionError, match="pop: time is up"):
        queue.pop(timeout_s=0.02)
    queue.push([])
    assert queue.pop() == []
    queue.push([b"last"])
    queue.end()
    with pytest.raises(ExecutionError, match="push: it was ended"):
        queue.push([b"later"])
    assert queue.pop() == [b"last"]
    with pytest.raises(ExecutionError, match="pop: it was ended"):
        queue.pop()


def resident_kib() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def test_nothing_leaks():
    """10,000 programs, and hundreds of everything else that is made and freed."""
    code = [emit(PROGRAMS)]

    def use(times: int) -> None:
        with Memory(cache_bytes=1 << 16) as memory, Pool(2) as pool:
            loaded, kernel = LoadedObjects(code), regions()
            context = Context(pool, memory, host_functions=[lambda *_: None])
            for i in range(times):
                run(context, loaded, "memory", np.array([i % 5000]))
                run(context, loaded, "call_host", np.array([0]))
                if i % 20 == 0:
                    run_regions(context, kernel, 100, 10, 3, 10**6)
                    Context(pool).close()
                    Queue().push([b"x" * 1000])
                    RandomState().close()
                    LoadedObjects(code).close()
                if i % 200 == 0:
                    with Pool(2) as other, Context(other) as inner:
                        run_regions(inner, kernel, 100, 10, 1, 10**6)
            assert memory.statistics().blocks_in_use == 0

    use(1000)
    before = resident_kib()
    use(10_000)
    assert resident_kib() - before < 2000


def test_overhead_of_a_call_is_small(loaded):
    context = Context()
    main, buffers = loaded.symbol("divide"), pointers(np.array([1.0, 1.0]))
    execute, handle = library().hl_execute, context.handle
    best = min(_time(lambda: execute(handle, main, buffers), 300) for _ in range(20))
    # About 0.5 us here; the bound is for slow, shared machines.
    assert best < 20e-6


def _time(call, times: int) -> float:
    with timed() as spent:
        for _ in range(times):
            call()
    return spent.seconds / times
