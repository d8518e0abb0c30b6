"""A message when something takes far longer than it should.

A process that compiles a thousand slow programs must not write a thousand messages: they are
counted, and the 1st, 2nd, 4th, 8th ... is written.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
    less turns the alarm off.
    """
    if threshold_s <= 0:
        yield
        return
    shown: list[bool] = []

    def ring() -> None:
        if occurrences.next_is_shown():
            shown.append(True)
            lines = [f"[{title}] Very slow compile? It has taken {threshold_s:g} s: {where()}."]
            write("\n  ".join([*lines, hint] if hint else lines))

    timer = threading.Timer(threshold_s, ring)
    timer.daemon = True
    start = performance()
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if shown:
            write(f"[{title}] The operation took {performance() - start:.1f} s.")
