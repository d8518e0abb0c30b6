"""From LLVM text to an object or to assembly, by any number of threads at once.

llvmlite lets one call in at a time, whatever it is about. LLVM itself asks only that no two threads
share a context or the object of a machine, so here each call has a context of its own and borrows a
machine that nobody else uses; the long calls are made without llvmlite's lock and without Python's.

Whether the addresses in loops are rewritten can be said by a switch of the process alone, which
LLVM reads when it sets out. So calls that want it on and calls that want it off take turns.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

Settings = tuple[str, str, str, int]
"""Triple, processor, features, and the effort of code generation."""


class EmissionError(Exception):
    """What LLVM says of a text that it does not take."""


class Turns:
    """Who may be at work: callers that want a switch on, any number of them, or those that do not.

    `turned` turns the switch, while nobody is at work; it is off where nobody is.
    """

    def __init__(self, turned: Callable[[bool], None]) -> None:
        self._turned, self._at_work = turned, {False: 0, True: 0}
        self._condition = threading.Condition()

    @property
    def is_on(self) -> bool:
        """Whether somebody is at work with the switch on."""
        return self._at_work[True] > 0

    @contextmanager
    def turn(self, is_on: bool) -> Iterator[None]:
        """While a caller is at work."""
        at_work = self._at_work
        with self._condition:
            while at_work[not is_on]:
                self._condition.wait()
            if is_on and not at_work[True]:
                self._turned(True)
            at_work[is_on] += 1
        try:
            yield
        finally:
            with self._condition:
                at_work[is_on] -= 1
                if not at_work[is_on]:
                    if is_on:
                        self._turned(False)
                    self._condition.notify_all()


class Emitter:
    """The machines of a process that wait to be borrowed, and LLVM's calls."""

    def __init__(self, llvm: Any, make_machine: Callable[[Settings], Any]) -> None:
        """`make_machine` makes a machine of llvmlite's."""
        self._made, self._calls = make_machine, _calls(llvm)
        self._idle: dict[Settings, list[Any]] = defaultdict(list)
        _leave_addresses(llvm, False)  # as it is may be another process's, of which this is a fork
        self.addresses = Turns(lambda is_plain: _leave_addresses(llvm, is_plain))

    def emitted(self, text: bytes, settings: Settings, is_object: bool, is_plain: bool) -> bytes:
        """The object, or the assembly, of a module; `is_plain`: addresses stay as they are written.

        `EmissionError` where LLVM does not take the text.
        """
        calls = self._calls
        try:
            machine = self._idle[settings].pop()
        except IndexError:
            machine = self._made(settings)
        context = calls.ContextCreate()
        message = ctypes.c_char_p()
        try:
            module = calls.ParseAssembly(context, text, ctypes.byref(message))
            if not module:
                raise EmissionError(_taken(calls, message))
            try:
                if calls.VerifyModule(module, ctypes.byref(message)):
                    raise EmissionError(_taken(calls, message))
                with self.addresses.turn(is_plain):
                    buffer = calls.TargetMachineEmitToMemory(
                        machine._ptr, module, int(is_object), ctypes.byref(message)
                    )
                if not buffer:
                    raise EmissionError(_taken(calls, message))
                content = ctypes.string_at(
                    calls.GetBufferStart(buffer), calls.GetBufferSize(buffer)
                )
                calls.DisposeMemoryBuffer(buffer)
                return content
            finally:
                calls.DisposeModule(module)
        finally:
            # Its types and constants are freed with it.
            calls.ContextDispose(context)
            self._idle[settings].append(machine)


_MAKING = threading.Lock()
_emitters: dict[int, Emitter] = {}
"""By process: a fork, where threads are gone in mid-work, gets its own."""


def emitter(llvm: Any, make_machine: Callable[[Settings], Any]) -> Emitter:
    """The one of this process: with two, callers of both kinds would be at work together."""
    own = _emitters.get(os.getpid())
    if own is None:
        with _MAKING:
            own = _emitters.get(os.getpid())
            if own is None:
                own = _emitters[os.getpid()] = Emitter(llvm, make_machine)
    return own


def _taken(calls: Any, message: ctypes.c_char_p) -> str:
    """A message of LLVM's, which is freed."""
    text = (message.value or b"").decode(errors="replace").strip()
    if message:
        calls.DisposeString(message)
        message.value = None
    return text


def _leave_addresses(llvm: Any, is_plain: bool) -> None:
    llvm.set_option("hloom", f"-disable-lsr={'true' if is_plain else 'false'}")


class _Call(NamedTuple):
    """How a function of llvmlite's library is called; `is_long`: others work meanwhile."""

    result: Any
    arguments: tuple[Any, ...]
    is_long: bool = False


_POINTER, _TEXT = ctypes.c_void_p, ctypes.c_char_p
_MESSAGE = ctypes.POINTER(ctypes.c_char_p)
_CALLS = {
    "ContextCreate": _Call(_POINTER, ()),
    "ContextDispose": _Call(None, (_POINTER,)),
    "ParseAssembly": _Call(_POINTER, (_POINTER, _TEXT, _MESSAGE), True),
    "VerifyModule": _Call(ctypes.c_bool, (_POINTER, _MESSAGE), True),
    "DisposeModule": _Call(None, (_POINTER,)),
    "TargetMachineEmitToMemory": _Call(
        _POINTER, (_POINTER, _POINTER, ctypes.c_int, _MESSAGE), True
    ),
    "GetBufferStart": _Call(_POINTER, (_POINTER,)),
    "GetBufferSize": _Call(ctypes.c_size_t, (_POINTER,)),
    "DisposeMemoryBuffer": _Call(None, (_POINTER,)),
    "DisposeString": _Call(None, (_TEXT,)),
}


def _calls(llvm: Any) -> Any:
    """The functions of llvmlite's library, without its lock; by their names without `LLVMPY_`."""
    name, handle = llvm.ffi.lib._name, llvm.ffi.lib._handle
    long, short = ctypes.CDLL(name, handle=handle), ctypes.PyDLL(name, handle=handle)
    functions = {}
    for call_name, call in _CALLS.items():
        function = (long if call.is_long else short)["LLVMPY_" + call_name]
        function.restype, function.argtypes = call.result, call.arguments
        functions[call_name] = function
    return type("Calls", (), {n: staticmethod(f) for n, f in functions.items()})
