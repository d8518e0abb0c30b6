"""hloom's clocks are its own: what users put at `time.monotonic` answers to them alone."""

import time

import numpy as np

import hloom
from hloom.base import clock
from tests.small_programs import ADD, LOOPS


def broken(*_):
    raise AssertionError("hloom asked a clock of a test's")


def test_replaced_clocks_do_not_reach_the_compiler(monkeypatch):
    for name in ("monotonic", "perf_counter", "time", "monotonic_ns", "perf_counter_ns", "sleep"):
        monkeypatch.setattr(time, name, broken)
    for text in (ADD, LOOPS):
        module = hloom.parse(text)
        compiled = hloom.compile(module, options={"slow_compile_alarm_seconds": 0})
        compiled(*hloom.random_arguments(module, 0))
    exe = hloom.compile(ADD)
    x = np.ones(3, np.float32)
    assert np.asarray(exe(x, x)).tolist() == [2, 2, 2]
    assert exe.seconds and exe.profile(x, x)


def test_a_tool_that_looks_through_modules_finds_no_clock():
    """freezegun replaces every name of every module at which a function of `time` stands."""
    real = {time.monotonic, time.perf_counter, time.time}
    assert not [name for name, value in vars(clock).items() if callable(value) and value in real]


def test_clocks_go_on():
    for read in (clock.monotonic, clock.performance, clock.wall):
        assert read() <= read()


def test_what_turns_up_inside_a_stage_does_not_count_to_it():
    times, told = iter((0, 2, 3, 10)), []
    timed = clock.StageClock(told.append, now=lambda: next(times))
    with timed.stage("kernels"), timed.inside("llvm text"):
        pass
    assert timed.seconds == {"kernels": 9, "llvm text": 1} and told == ["kernels"]
