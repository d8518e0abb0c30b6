"""The alarm of slow compilations."""

import logging
import re
import threading
import time

import hloom
from hloom.base.alarm import Occurrences, outside_wait, slow_alarm
from hloom.base.clock import StageClock
from hloom.compiler import compile_module

ADD = """HloModule adds
ENTRY main {
  x = f32[3] parameter(0)
  ROOT sum = f32[3] add(x, x)
}
"""


def wait_until(condition):
    """Wait for another thread, which may wait for a core itself."""
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)


def test_alarm_says_what_is_slow():
    said = []
    title = "Compiling module step for CPU"
    with slow_alarm(title, 0.05, lambda: "in passes", write=said.append, occurrences=Occurrences()):
        wait_until(lambda: said)
    assert len(said) == 2 and "Very slow compile" in said[0] and "in passes" in said[0]
    assert all(text.startswith(f"[{title}]") for text in said) and re.search(
        r"took \d+\.\d", said[1]
    )


def test_alarm_says_what_is_waited_for_outside_of_compiling():
    said = []

    def alarm():
        return slow_alarm("m", 0.01, str, hint="why", write=said.append, occurrences=Occurrences())

    with outside_wait("the native runtime") as wait, alarm():
        wait.news = "3 of 40 compiled"
        wait_until(lambda: said)
    assert "waiting for the native runtime for" in said[0] and "(3 of 40 compiled)" in said[0]
    assert "why" not in said[0]
    said.clear()
    with alarm():
        wait_until(lambda: said)
    assert "waiting" not in said[0] and "why" in said[0]


def test_alarms_ring_in_their_turn_whatever_order_they_are_set_in():
    said = []

    def alarm(name, threshold_s):
        return slow_alarm(name, threshold_s, str, write=said.append, occurrences=Occurrences())

    with alarm("late", 0.3), alarm("over", 0.1):
        pass
    with alarm("late", 0.3), alarm("early", 0.05), alarm("never", 50):
        wait_until(lambda: len(said) > 1)
    assert [re.findall(r"\[(\w+)\]", text)[0] for text in said] == ["early", "late"] * 2


def test_one_thread_waits_for_all_alarms():
    for _ in range(50):
        with slow_alarm("m", 50, str, write=print, occurrences=Occurrences()):
            pass
    assert sum(t.name == "hloom-alarm" for t in threading.enumerate()) == 1


def test_a_fast_compilation_says_nothing():
    said = []
    with slow_alarm("m", 5, str, write=said.append, occurrences=Occurrences()):
        pass
    assert said == []


def test_alarms_are_written_at_powers_of_two():
    counter = Occurrences()
    assert [n for n in range(1, 9) if counter.next_is_shown()] == [1, 2, 4, 8]


def test_the_option_sets_the_alarm(monkeypatch, caplog):
    monkeypatch.setenv("HLOOM_CACHE", "0")
    monkeypatch.setattr("hloom.base.alarm.SLOW_COMPILES._count", 0)
    with caplog.at_level(logging.WARNING, "hloom"):
        compile_module(
            hloom.parse(ADD),
            options=hloom.Options({"slow_compile_alarm_seconds": 0.1}),
            progress=lambda stage: wait_until(
                lambda: stage != "passes" or "Very slow" in caplog.text
            ),
        )
    assert "[Compiling module adds for CPU]" in caplog.text and "in passes" in caplog.text


def test_the_clock_says_where_it_is():
    told, now = [], [7.0]
    clock = StageClock(told.append, now=lambda: now[0])
    with clock.stage("first"):
        now[0] += 0.125
    with clock.stage("second"):
        now[0] += 0.25
        assert clock.where() == "in second for 0.2 s, first took 0.1 s"
    now[0] += 3
    with clock.stage("first"):
        now[0] += 0.0625
    assert told == ["first", "second", "first"] and list(clock.seconds) == ["first", "second"]
    assert clock.seconds == {"first": 0.1875, "second": 0.25}
    assert clock.where() == "second took 0.2 s, first took 0.2 s"
