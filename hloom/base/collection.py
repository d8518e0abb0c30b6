"""Pausing the garbage collector while a large graph is made.

Reading a module makes hundreds of thousands of objects that all stay; the collector would walk
them again and again and free none, which costs a third of the time.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Iterator[None]:
    """No cyclic collection inside the block; it goes on afterwards if it was on before."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
