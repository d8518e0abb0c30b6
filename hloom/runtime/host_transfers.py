"""The host's end of sends to it and receives from it: handlers in Python, by channel.

The program calls them while it runs, in the order of its tokens, from whichever thread works on it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import CFUNCTYPE, c_char_p, c_int32, c_int64, c_void_p
from functools import lru_cache
from typing import Any

from hloom.base.diagnostics import UsageError
from hloom.program.program import Program
from hloom.program.thunks.host_transfer import HostRecv, HostSend
from hloom.program.thunks.thunk import walk
from hloom.runtime.feeds import bytes_of_value, value_of_bytes
from hloom.runtime.ffi import RawContext, root_context, set_error
from hloom.runtime.library import library
from hloom.runtime.raised import hold_raised
from hloom.types.shape import Shape
from hloom.types.text import shape_from_text

Taker = Callable[[Any, int], object]
"""Is handed an array that was sent, its own from then on, and the number of the device."""
Giver = Callable[[Shape, int], Any]
"""Gives the array that a device receives, which has this shape."""

_Transfer = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_int64, c_char_p, c_void_p, c_int64)


class _RawTransfers(ctypes.Structure):
    """hl_host_transfers."""

    _fields_ = (("state", c_void_p), ("send", _Transfer), ("receive", _Transfer))


class HostTransfers:
    """The handlers of a program's channels. They may be set and replaced between runs."""

    def __init__(self, handle: int, program: Program) -> None:
        """`handle` is the native program (hl_program), which must outlive this."""
        thunks = list(walk(program.thunks))
        self._channels = {
            "send": {t.channel for t in thunks if isinstance(t, HostSend)},
            "receive": {t.channel for t in thunks if isinstance(t, HostRecv)},
        }
        self._takers: dict[int, Taker] = {}
        self._givers: dict[int, Giver] = {}
        # What native code calls lives as long as this.
        self._raw = _RawTransfers(None, _Transfer(self._sent), _Transfer(self._asked))
        self._handle = handle

    def take(self, channel: int, handler: Taker) -> None:
        """Who is handed what is sent on a channel; `UsageError` if nothing is."""
        self._check(channel, "send")
        self._takers[channel] = handler
        self._connect()

    def give(self, channel: int, handler: Giver) -> None:
        """Who gives what is received on a channel; `UsageError` if nothing is."""
        self._check(channel, "receive")
        self._givers[channel] = handler
        self._connect()

    def _check(self, channel: int, what: str) -> None:
        known = self._channels[what]
        if channel not in known:
            there = ", ".join(map(str, sorted(known)))
            raise UsageError(
                f"the program has no host {what} on channel {channel}",
                rule="host-transfer",
                hint=f"it has some on {there}" if there else f"it has no host {what}",
            )

    def _connect(self) -> None:
        library().hl_program_set_transfers(self._handle, ctypes.byref(self._raw))

    def _sent(
        self, _state: int, context: int, channel: int, shape: bytes, data: int, size: int
    ) -> int:
        def run() -> None:
            handler = self._takers.get(channel)
            if handler is None:
                raise _without_handler("take", channel)
            raw = ctypes.string_at(data, size) if size else b""
            handler(value_of_bytes(_shape(shape), iter([raw])), _device(context))

        return _guarded(context, f"host send on channel {channel}", run)

    def _asked(
        self, _state: int, context: int, channel: int, shape: bytes, data: int, size: int
    ) -> int:
        def run() -> None:
            handler = self._givers.get(channel)
            if handler is None:
                raise _without_handler("give", channel)
            known = _shape(shape)
            [raw] = bytes_of_value(known, handler(known, _device(context)), "host-receive")
            ctypes.memmove(data, raw, min(len(raw), size))

        return _guarded(context, f"host receive on channel {channel}", run)


def _without_handler(method: str, channel: int) -> UsageError:
    return UsageError(
        "there is no handler",
        rule="host-transfer",
        hint=f"set one: exe.host.{method}({channel}, f)",
    )


def _guarded(context: int, what: str, run: Callable[[], None]) -> int:
    """The status of a handler's work; what it raises is kept for who runs the program."""
    try:
        run()
    except BaseException as error:  # what escaped from here would be lost, and the program go on
        hold_raised(root_context(context), error)
        return set_error(context, "INTERNAL", f"{what}: {type(error).__name__}: {error}")
    return 0


@lru_cache(maxsize=256)
def _shape(text: bytes) -> Shape:
    return shape_from_text(text.decode())


def _device(context: int) -> int:
    return RawContext.from_address(context).device
