"""A message when something takes far longer than it should.

A process that compiles a thousand slow programs must not write a thousand messages: they are
counted, and the 1st, 2nd, 4th, 8th ... is written.

One thread of the process waits for all alarms. A small program is compiled in the time that it
takes to start and end a few threads, and hardly any alarm rings: so a new one wakes the thread
only if none before it is due earlier, and one that is over stays in the queue until its time.
"""

from __future__ import annotations

import heapq
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from hloom.base.clock import performance

LOG = logging.getLogger("hloom")


class Occurrences:
    """Counts alarms; says which of them are worth a message."""

    def __init__(self) -> None:
        self._count = 0
        self._lock = threading.Lock()

    def next_is_shown(self) -> bool:
        """Count one more: whether its number is a power of two."""
        with self._lock:
            self._count += 1
            return self._count & (self._count - 1) == 0


# Of the whole process, as the rule asks: the one counter that outlives a compilation.
SLOW_COMPILES = Occurrences()


class OutsideWait:
    """Something that all compilations of this process have to wait for, and how far it is."""

    def __init__(self, what: str) -> None:
        self.what, self.news = what, ""
        self._start = performance()

    def __str__(self) -> str:
        news = f" ({self.news})" if self.news else ""
        return f"waiting for {self.what} for {performance() - self._start:.1f} s{news}"


_outside_waits: list[OutsideWait] = []
"""Those of the process that are not over, whichever thread they hold up."""


@contextmanager
def outside_wait(what: str) -> Iterator[OutsideWait]:
    """While something is waited for that is no compilation of a program; `news` may be set."""
    wait = OutsideWait(what)
    _outside_waits.append(wait)
    try:
        yield wait
    finally:
        _outside_waits.remove(wait)


class Alarm:
    """What is to ring at a time, unless it is over before."""

    __slots__ = ("due_s", "ring")

    def __init__(self, due_s: float, ring: Callable[[], None]) -> None:
        self.due_s = due_s
        self.ring: Callable[[], None] | None = ring

    def __lt__(self, other: Alarm) -> bool:
        return self.due_s < other.due_s


class Alarms:
    """The alarms of a process, and the thread that rings them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[Alarm] = []
        """A heap."""
        self._has_thread = False

    def set(self, alarm: Alarm) -> None:
        """Ring at its time."""
        with self._changed:
            heapq.heappush(self._waiting, alarm)
            if not self._has_thread:
                try:
                    threading.Thread(target=self._watch, name="hloom-alarm", daemon=True).start()
                except RuntimeError as error:  # no more can be had, or Python is ending
                    LOG.info("no thread for alarms: %s", error)
                    return
                self._has_thread = True
            elif self._waiting[0] is alarm:
                self._changed.notify()

    def _watch(self) -> None:
        while True:
            with self._changed:
                while (left_s := self._left_s()) is None or left_s > 0:
                    self._changed.wait(left_s)
                ring = heapq.heappop(self._waiting).ring
            if ring is None:
                continue
            try:
                ring()
            except Exception:  # of who asked where it is; the others still wait for their alarms
                LOG.exception("an alarm could not say what is slow")

    def _left_s(self) -> float | None:
        """Seconds until the first is due; None: there is none."""
        return self._waiting[0].due_s - performance() if self._waiting else None


@cache
def alarms(process_id: int) -> Alarms:
    """Those of this process; a fork, in which the thread is gone, gets its own."""
    return Alarms()


@contextmanager
def slow_alarm(
    title: str,
    threshold_s: float,
    where: Callable[[], str],
    *,
    hint: str = "",
    occurrences: Occurrences = SLOW_COMPILES,
    write: Callable[[str], None] = LOG.warning,
) -> Iterator[None]:
    """Write that `title` is slow, and `where` it is, if the block lasts over the threshold.

    What was announced as slow is followed by how long it took in the end. A threshold of 0 or
    less turns the alarm off. `hint` is left out where something outside is waited for.
    """
    if threshold_s <= 0:
        yield
        return
    shown: list[bool] = []

    def ring() -> None:
        if occurrences.next_is_shown():
            shown.append(True)
            waits = list(map(str, _outside_waits))
            state = ", ".join([where(), *waits])
            lines = [f"[{title}] Very slow compile? It has taken {threshold_s:g} s: {state}."]
            write("\n  ".join([*lines, hint] if hint and not waits else lines))

    start = performance()
    alarm = Alarm(start + threshold_s, ring)
    alarms(os.getpid()).set(alarm)
    try:
        yield
    finally:
        alarm.ring = None
        if shown:
            write(f"[{title}] The operation took {performance() - start:.1f} s.")
