"""Calls of the native routines from tests: a context on a pool, arrays to pointers, statuses."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hloom.runtime.native import library


class NativeCall:
    """A context; calling it with a routine's name and arguments raises what the routine reports.

    Integers become int64, arrays the address of their data, None a null pointer.
    """

    def __init__(self, threads: int) -> None:
        self.library = library()
        for name in ("hl_pool_new", "hl_context_new"):
            getattr(self.library, name).restype = ctypes.c_void_p
        self.library.hl_context_message.restype = ctypes.c_char_p
        self.pool = ctypes.c_void_p(self.library.hl_pool_new(threads) if threads > 1 else None)
        self.context = self._fresh()

    def _fresh(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.library.hl_context_new(self.pool, None))

    def __call__(self, routine: str, *arguments: Any) -> None:
        status = getattr(self.library, routine)(self.context, *[argument(a) for a in arguments])
        if status:
            message = self.library.hl_context_message(self.context).decode()
            self.library.hl_context_free(self.context)
            self.context = self._fresh()  # a context keeps its first error
            raise RuntimeError(message)

    def close(self) -> None:
        self.library.hl_context_free(self.context)
        if self.pool:
            self.library.hl_pool_free(self.pool)


@contextmanager
def native(threads: int = 1) -> Iterator[NativeCall]:
    call = NativeCall(threads)
    try:
        yield call
    finally:
        call.close()


def argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, int | np.integer):
        return ctypes.c_int64(int(value))
    return ctypes.c_void_p(None) if value is None else value


def pointers(arrays: Sequence[np.ndarray | None]) -> Any:
    """A C array of the addresses of arrays; the arrays must outlive it."""
    return (ctypes.c_void_p * len(arrays))(*[None if a is None else a.ctypes.data for a in arrays])


def sizes(numbers: Sequence[int]) -> Any:
    """A C array of int64."""
    return (ctypes.c_int64 * len(numbers))(*numbers)
