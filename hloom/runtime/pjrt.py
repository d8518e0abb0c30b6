"""Programs as the native side of the plugin takes them (native/pjrt/compiler.h), and its questions.

The native library holds everything that JAX calls; only compiling, and questions about what was
compiled, come here, through a table of four functions. Each answers through a reply: a program,
bytes, numbers, or an error, all of which are copied at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import CFUNCTYPE, byref, c_char_p, c_double, c_int, c_int64, c_void_p
from typing import Any

from hloom.base.guarding import GUARDING
from hloom.base.installed import hloom_version, installed_version
from hloom.device.costs import Costs
from hloom.program.program import Program
from hloom.program.thunks.thunk import sequence_ns
from hloom.runtime.executor import Executor
from hloom.runtime.launch_spec import MEMORY_KINDS as MEMORY_KINDS
from hloom.runtime.launch_spec import LaunchSpec
from hloom.runtime.loaded_program import LoadedProgram
from hloom.runtime.native import Pool, library
from hloom.runtime.processor_identity import processor_identity
from hloom.runtime.saved_launch import launch_section

SHORT_CALLS = Costs(foreign_ns=0.0)
"""Whether a run is worth a thread of its own: custom calls, like XLA, we hope to be short."""
PJRT_QUESTIONS = ("program", "cost", "saved", "options", "steps")
"""What is asked about a program, by number."""


class RawProgram(ctypes.Structure):
    """hl_pjrt_program."""

    _fields_ = [
        ("handle", c_int64),
        ("program", c_void_p),
        ("launch_spec", c_char_p),
        ("launch_spec_size", c_int64),
        ("expected_ns", c_int64),
    ]


_COMPILE = CFUNCTYPE(
    None,
    *(c_void_p, c_int64),  # the program
    *(c_void_p, c_int64),  # its format
    *(c_void_p, c_int64),  # options
    *(c_void_p, c_int64),  # the topology
    c_void_p,
)
_LOAD = CFUNCTYPE(None, c_void_p, c_int64, c_void_p, c_int64, c_void_p)
_ASK = CFUNCTYPE(None, c_int64, c_int64, c_void_p)
_PENDING = CFUNCTYPE(c_int, c_void_p)


class RawCompiler(ctypes.Structure):
    """hl_pjrt_compiler."""

    _fields_ = [
        ("compile", _COMPILE),
        ("load", _LOAD),
        ("ask", _ASK),
        ("call_soon", c_void_p),
        ("released", _PENDING),
    ]


_PUT = CFUNCTYPE(c_int64, c_char_p, c_char_p, c_void_p, c_int64)
_GET = CFUNCTYPE(c_int64, c_char_p, c_int64, c_void_p, c_int64)


class RawKeyValues(ctypes.Structure):
    """hl_pjrt_key_values."""

    _fields_ = [("put", _PUT), ("get", _GET)]


class ForeignExecutor:
    """Stands for the executor of a program that this machine cannot run: a run is an error."""

    def __init__(self, program: Program, triple: str) -> None:
        self.program = program
        self.triple = triple
        self.loaded = LoadedProgram(program, Pool.shared(), is_foreign=True)


AnyExecutor = Executor | ForeignExecutor


class Reply:
    """An answer to the native side; it is copied at once."""

    def __init__(self, handle: int) -> None:
        self._handle = c_void_p(handle)

    def program(self, executor: AnyExecutor, handle: int, launch_spec: LaunchSpec) -> None:
        section = launch_section(executor.program, launch_spec)
        expected = int(min(sequence_ns(executor.program.thunks, SHORT_CALLS), 1e18))
        raw = RawProgram(handle, executor.loaded.handle, section, len(section), expected)
        library().hl_pjrt_reply_program(self._handle, byref(raw))

    def bytes(self, data: bytes) -> None:
        library().hl_pjrt_reply_bytes(self._handle, data, c_int64(len(data)))

    def number(self, name: str, value: float) -> None:
        library().hl_pjrt_reply_number(self._handle, name.encode(), c_double(value))

    def error(self, status: int, message: str) -> None:
        text = message.encode(errors="replace").replace(b"\0", b"?")
        library().hl_pjrt_reply_error(self._handle, c_int64(status), text)


# What answers must stay as long as the process: the native side keeps pointers to it.
_TABLES: list[Any] = []


def set_pjrt_compiler(
    compile: Callable[[bytes, str, bytes, bytes, Reply], None],
    load: Callable[[bytes, bytes, Reply], None],
    ask: Callable[[int, int, Reply], None],
    release: Callable[[int], object],
) -> None:
    """From here on the native side asks these functions, which raise nothing."""
    # The one function of Python's that threads without its lock may call, at its end too.
    call_soon = ctypes.cast(ctypes.pythonapi.Py_AddPendingCall, c_void_p)

    def call_compile(*raw: Any) -> None:
        code, form, options, topology = (_bytes(raw[k], raw[k + 1]) for k in (0, 2, 4, 6))
        compile(code, form.decode(), options, topology, Reply(raw[8]))

    def call_load(data: Any, size: int, options: Any, options_size: int, reply: int) -> None:
        load(_bytes(data, size), _bytes(options, options_size), Reply(reply))

    def call_ask(handle: int, what: int, reply: int) -> None:
        ask(handle, what, Reply(reply))

    def call_released(_: int) -> int:
        handles = (c_int64 * 64)()
        while count := library().hl_pjrt_take_released(handles, c_int64(len(handles))):
            for handle in handles[:count]:
                release(handle)
        return 0

    table = RawCompiler(
        _COMPILE(call_compile),
        _LOAD(call_load),
        _ASK(call_ask),
        call_soon,
        _PENDING(call_released),
    )
    _TABLES.append(table)
    library().hl_pjrt_set_compiler(ctypes.byref(table))


def set_pjrt_key_values(put: Callable[[str, str], None], get: Callable[[str, int], str]) -> None:
    """Let clients of several processes find one another through a store of keys and values that all
    share. `get` waits for a key, so many milliseconds at most; what they raise is the client's."""

    def answer(text: int, most: int, ask: Callable[[], str | None]) -> int:
        try:
            told, is_error = ask(), False
        except Exception as error:
            told, is_error = f"{type(error).__name__}: {error}", True
        written = (told or "").encode()
        if not is_error and len(written) >= most:
            written, is_error = b"a value in the key-value store is too long", True
        written = written[: most - 1]
        ctypes.memmove(text, written + b"\0", len(written) + 1)
        return -1 if is_error else len(written)

    def call_put(key: bytes, value: bytes, text: int, most: int) -> int:
        return min(answer(text, most, lambda: put(key.decode(), value.decode())), 0)

    def call_get(key: bytes, wait_ms: int, text: int, most: int) -> int:
        return answer(text, most, lambda: get(key.decode(), wait_ms))

    table = RawKeyValues(_PUT(call_put), _GET(call_get))
    _TABLES.append(table)
    library().hl_pjrt_set_key_values(ctypes.byref(table))


def clear_pjrt_compiler() -> None:
    """Let devices end what they do; nobody is asked from here on."""
    native = library()
    native.hl_pjrt_drain()
    native.hl_pjrt_set_compiler(None)


def set_pjrt_versions(stablehlo: tuple[int, int, int]) -> None:
    """What clients say they are, and the newest StableHLO that `compile` reads."""
    library().hl_pjrt_set_versions(platform_version().encode(), *map(c_int64, stablehlo))


def platform_version() -> str:
    """hloom's version, the code generator's, the processor: JAX's persistent cache keeps programs
    under this, so whoever may not run another's program must differ in it. Those planned for a
    guard say so."""
    return (
        f"hloom {hloom_version()}{' under guard' if GUARDING else ''}\n"
        f"llvmlite {installed_version('llvmlite')}\n"
        f"processor {processor_identity() or 'unknown'}"
    )


def library_path() -> str:
    """The library that PJRT's hosts open: the runtime's own."""
    return library()._name


def _bytes(address: int | None, size: int) -> bytes:
    return ctypes.string_at(address, size) if address and size else b""
