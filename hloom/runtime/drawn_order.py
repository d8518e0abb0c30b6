"""Runs side by side in an order that is drawn, to find a wait that is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hloom.runtime.library import library


@contextmanager
def drawn_order(seed: int, most_delay_ns: int = 0) -> Iterator[None]:
    """While this lasts, runs that may be side by side are, in an order that is drawn (0: not), each
    after a wait of at most so long: for tests."""
    native = library()
    native.hl_executor_draw(seed, most_delay_ns)
    try:
        yield
    finally:
        native.hl_executor_draw(0, 0)
