"""Processor time of a piece of work, for tests of what grows with the square of a size.

The process as a whole says nothing of it: other threads of it compile and run, and the collector of
garbage goes through all that the tests before have left. Time of this thread alone counts, with the
collector off."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Spent:
    """What a piece of work took, in seconds; known when it has ended."""

    seconds = float("nan")


@contextmanager
def timed() -> Iterator[Spent]:
    """The processor time of this thread in the body."""
    spent, collecting = Spent(), gc.isenabled()
    gc.disable()
    start = time.thread_time()
    try:
        yield spent
    finally:
        spent.seconds = time.thread_time() - start
        if collecting:
            gc.enable()


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """The body takes no more than this."""
    with timed() as spent:
        yield
    assert spent.seconds < seconds, f"{spent.seconds:.2f} s of processor time, {seconds} allowed"
