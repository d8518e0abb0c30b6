"""The native runtime for Python: pools of threads, and queues between programs and the host.

Each class owns one native thing and frees it with `close()`, at the end of a `with`, or when it is
collected. What a thing uses it keeps alive. Addresses are plain ints.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from ctypes import c_char_p, c_int64, c_void_p
from functools import cache
from typing import Self

from hloom.runtime.library import (
    ExecutionError,
    LoadError,
    allocated,
    library,
)
from hloom.runtime.processors import checked_threads

__all__ = [
    "ExecutionError",
    "LoadError",
    "Owner",
    "Pool",
    "Queue",
    "library",
]

_PIECE_NS = 100_000_000  # how long a wait keeps Python from seeing Ctrl-C


class Owner:
    """One native thing, its address, and how it is freed."""

    __slots__ = ("__weakref__", "_finalizer", "handle")

    def _own(self, handle: int, free: Callable[[int], object]) -> None:
        self.handle = handle
        self._finalizer = weakref.finalize(self, free, handle)
        # A thread may still be in a program when the process ends; the system frees everything.
        self._finalizer.atexit = False

    def close(self) -> None:
        """Frees it; nothing may be using it. A second call does nothing."""
        self._finalizer()
        self.handle = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _nothing(_: int) -> None:
    """Frees what is somebody else's."""


class Pool(Owner):
    """Threads that share the regions of programs; one pool may serve many programs at once.

    `threads` counts the caller; 1 makes none. None: what the scheduler and the cgroup grant.
    """

    __slots__ = ("threads",)

    def __init__(self, threads: int | None = None) -> None:
        self.threads = checked_threads(threads)
        native = library()
        self._own(allocated(native.hl_pool_new(self.threads), "a pool"), native.hl_pool_free)

    @staticmethod
    def shared(threads: int | None = None) -> Pool:
        """The pool of this many threads that the whole process shares; it is never closed."""
        return _shared_pool(checked_threads(threads))

    @property
    def workers(self) -> int:
        """How many threads have been made: none before the first region worth it."""
        return library().hl_pool_workers(self.handle)

    @property
    def sleeping(self) -> int:
        """How many of them sleep."""
        return library().hl_pool_sleeping(self.handle)


@cache
def _shared_pool(threads: int) -> Pool:
    return Pool(threads)


class Queue(Owner):
    """Items on their way between the host and programs; an item is a list of buffers' bytes."""

    __slots__ = ()

    def __init__(self, capacity: int = 64) -> None:
        native = library()
        self._own(allocated(native.hl_queue_new(capacity), "a queue"), native.hl_queue_free)

    @classmethod
    def of_program(cls, handle: int) -> Queue:
        """One that a program owns, and frees."""
        queue = cls.__new__(cls)
        queue._own(handle, _nothing)
        return queue

    def push(self, buffers: Sequence[bytes], timeout_s: float | None = None) -> None:
        """Copies an item in, waiting for room; ExecutionError if that takes too long."""
        sizes = (c_int64 * len(buffers))(*map(len, buffers))
        c_buffers = [c_char_p(buffer) for buffer in buffers]
        places = (c_void_p * len(buffers))(*(ctypes.cast(h, c_void_p).value for h in c_buffers))
        native = library()
        self._wait(
            lambda ns: native.hl_queue_push(self.handle, places, sizes, len(buffers), ns),
            timeout_s,
            "push",
        )

    def pop(self, timeout_s: float | None = None) -> list[bytes]:
        """The first item, waited for. Only one thread may take items so."""
        native = library()
        most = 16
        while True:
            sizes = (c_int64 * most)()
            count = self._wait(
                lambda ns, s=sizes, m=most: -native.hl_queue_next_sizes(self.handle, s, m, ns),
                timeout_s,
                "pop",
            )
            if -count <= most:
                break
            most = -count
        buffers = [ctypes.create_string_buffer(max(1, size)) for size in sizes[:-count]]
        places = (c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
        self._wait(
            lambda ns: native.hl_queue_pop(self.handle, places, sizes, len(buffers), ns),
            timeout_s,
            "pop",
        )
        return [buffer.raw[:size] for buffer, size in zip(buffers, sizes)]

    def end(self) -> None:
        """Nothing comes any more: whoever waits, or puts something in, gets an error."""
        library().hl_queue_close(self.handle)

    def __len__(self) -> int:
        return library().hl_queue_length(self.handle)

    @staticmethod
    def _wait(call: Callable[[int], int], timeout_s: float | None, what: str) -> int:
        """Waits in pieces, so that Ctrl-C is seen; what `call` gives when it is not a status."""
        left = None if timeout_s is None else int(timeout_s * 1e9)
        while True:
            piece = _PIECE_NS if left is None else max(0, min(_PIECE_NS, left))
            status = call(piece)
            if status <= 0:
                return status
            left = None if left is None else left - piece
            if status != 4 or (left is not None and left <= 0):
                why = {1: "it was ended", 3: "another thread took the item", 4: "time is up"}
                raise ExecutionError(f"queue: {what}: {why.get(status, 'no memory')}", status)
