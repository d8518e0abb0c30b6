"""Calls of LLVM that Ctrl-C ends at once.

LLVM cannot be told to stop, and Python handles a signal only when C code has come back, which may
take seconds. So a long call runs in a thread of its own, and the main thread, which signals come
to, waits for it in Python. Who is interrupted leaves the call to end by itself: nobody reads what
it makes.

A process may end before such a call does. The destructors of LLVM would then take away what it
works on, and crash a process that was done: so they are not run.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_left: set[object] = set()
"""Calls that the end of the process does not wait for. Of the process, as its end is."""


def interruptibly(call: Callable[[], bytes]) -> bytes:
    """What a call returns or raises; `KeyboardInterrupt` comes out of it within milliseconds."""
    if threading.current_thread() is not threading.main_thread():
        return call()  # no signal is handled here
    answer: list[Any] = []
    is_done = threading.Lock()
    is_done.acquire()

    def run() -> None:
        try:
            answer.append(call())
        except BaseException as error:
            answer.append(error)
        finally:
            _left.discard(is_done)
            is_done.release()

    try:
        threading.Thread(target=run, name="hloom-llvm", daemon=True).start()
    except RuntimeError:  # no more threads can be had, or Python is ending
        return call()
    try:
        is_done.acquire()
    except BaseException:
        if not answer:
            _left.add(is_done)
            _watch_end()
        raise
    [outcome] = answer
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


@contextmanager
def underway() -> Iterator[None]:
    """While a thread that does not keep a process from ending is in a call of LLVM's."""
    _watch_end()
    mark = object()
    _left.add(mark)
    try:
        yield
    finally:
        _left.discard(mark)


@cache
def _watch_end() -> None:
    """See to it that the end of this process is looked at, once."""
    atexit.register(_end)


def _end() -> None:
    """Let the process end as it is where LLVM still works: flush C's files, run no destructors."""
    if not _left:
        return
    with contextlib.suppress(AttributeError):  # a C library without these
        libc = ctypes.CDLL(None)
        # What is registered last is run first.
        libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)
        libc.__cxa_atexit(ctypes.cast(libc.fcloseall, ctypes.c_void_p), None, None)
