"""Clocks, and which stage a long piece of work is in and how long each took.

The clocks are bound when hloom is imported, where nothing finds them by name: tests of users put
other functions at `time.monotonic` and its like, whose answers are for the code that they test.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def _bound(read: Callable[[], float]) -> Callable[[], float]:
    """A clock under no name that a test replaces (freezegun looks through all modules)."""
    return lambda: read()


monotonic = _bound(time.monotonic)
"""Seconds, of which only differences mean something."""
performance = _bound(time.perf_counter)
"""The same of the finest clock."""
wall = _bound(time.time)
"""Seconds since 1970."""


class StageClock:
    """Times the stages of one piece of work, one after another; stages may stand in others.

    `progress` is called with the name of each stage as it begins. Seconds are those of `now`: of
    the monotonic clock.
    """

    __slots__ = ("_now", "_open", "_progress", "seconds")

    def __init__(
        self,
        progress: Callable[[str], None] | None = None,
        *,
        now: Callable[[], float] = performance,
    ) -> None:
        self.seconds: dict[str, float] = {}
        """By stage, in the order in which they began; one that is not over yet has 0."""
        self._progress, self._now = progress, now
        self._open: list[tuple[str, float]] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A stage; what it takes is added to others of its name."""
        self.seconds.setdefault(name, 0.0)
        start = self._now()
        self._open.append((name, start))
        try:
            if self._progress is not None:
                self._progress(name)
            yield
        finally:
            self._open.pop()
            self.seconds[name] += self._now() - start

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Part of a stage that turns up in the middle of another one, to which it does not count.
        Nobody is told of it."""
        self.seconds.setdefault(name, 0.0)
        around, _ = self._open[-1]
        start = self._now()
        try:
            yield
        finally:
            took = self._now() - start
            self.seconds[name] += took
            self.seconds[around] -= took

    def where(self) -> str:
        """What is being done now and for how long, and what took long before; for a message."""
        now = self._now()
        running = [f"in {name} for {now - start:.1f} s" for name, start in self._open]
        open_ = {name for name, _ in self._open}
        done = [(s, name) for name, s in self.seconds.items() if name not in open_ and s >= 0.1]
        past = [f"{name} took {s:.1f} s" for s, name in sorted(done, reverse=True)[:3]]
        return ", ".join([*running, *past]) or "before the first stage"
