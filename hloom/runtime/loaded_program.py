"""Programs as the native runtime has them: linked, their constants in place, their calls bound.

The structs are those of native/loaded_program.h. A program is described to it by the section
PROGRAM of its saved form, which is made in memory where it comes from the compiler.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from ctypes import c_char, c_char_p, c_int64, c_void_p
from typing import Any, NoReturn

import numpy as np

from hloom.base.diagnostics import HloError, UsageError
from hloom.base.guarding import GUARDING
from hloom.program.container import Piece
from hloom.program.program import Program
from hloom.program.saved import program_section
from hloom.program.thunks.thunk import walk
from hloom.runtime import ffi
from hloom.runtime.buffer import OutOfMemoryError
from hloom.runtime.call_sites import check_handlers
from hloom.runtime.library import ExecutionError, LoadError
from hloom.runtime.native import Pool, library
from hloom.runtime.raised import take_raised


class RawParts(ctypes.Structure):
    """hl_program_parts."""

    _fields_ = [
        ("record", c_char_p),
        ("record_size", c_int64),
        ("objects", c_char_p),
        ("objects_size", c_int64),
        ("constants", ctypes.POINTER(c_void_p)),
        ("copies_constants", c_int64),
        ("pool", c_void_p),
        ("block_names", ctypes.POINTER(c_char_p)),
        ("is_foreign", c_int64),
    ]


class RawProblem(ctypes.Structure):
    """hl_problem."""

    _fields_ = [
        ("status", c_int64),
        ("rule", c_char * 32),
        ("text", c_char * 4064),
        ("context", c_void_p),
    ]


class RawArray(ctypes.Structure):
    """hl_argument and hl_result."""

    _fields_ = [("data", c_void_p), ("block", c_void_p)]


RAW_WORDS = ctypes.sizeof(RawArray) // ctypes.sizeof(c_void_p)


class LoadedProgram:
    """A program ready to run. It is freed when this is collected and no run uses it."""

    def __init__(self, program: Program, pool: Pool, *, is_foreign: bool = False) -> None:
        """Raises `HloError` for one that cannot be loaded here; `is_foreign`: for another machine,
        where a run is an error."""
        if not is_foreign:
            check_handlers(program.call_sites)
        record, objects = program.record or program_section(program), b"".join(program.objects)
        self._kept = [_bytes_of(a.data) for a in program.allocations]
        constants = [None if array is None else array.ctypes.data for array in self._kept]
        count = len(constants)
        names = (
            [name.encode(errors="surrogateescape") for name in block_names(program)]
            if GUARDING
            else []
        )
        native = library()
        self._pool = pool
        self.handle = native.hl_program_new(
            ctypes.byref(
                RawParts(
                    record,
                    len(record),
                    objects,
                    len(objects),
                    (c_void_p * max(count, 1))(*constants),
                    False,
                    pool.handle,
                    (c_char_p * count)(*names) if names else None,
                    is_foreign,
                )
            )
        )
        if not self.handle:
            raise_last_problem()
        states = [
            native.hl_program_call_state(self.handle, k) for k in range(len(program.call_sites))
        ]
        weakref.finalize(self, _free, self.handle, states).atexit = False

    def symbol(self, name: str) -> int:
        """The address of a global symbol of its code; LoadError if there is none."""
        if (address := library().hl_program_symbol(self.handle, name.encode())) is None:
            raise LoadError(f"no symbol {name} in the loaded objects", rule="object-load")
        return address

    def constant(self, allocation: int) -> int:
        """Where the constant of an allocation stands; 0: it is none."""
        return library().hl_program_constant(self.handle, allocation) or 0


def _free(handle: int, states: Sequence[int]) -> None:
    for state in states:
        ffi.forget(state)
    library().hl_program_release(handle)


def _bytes_of(data: bytes | memoryview | None) -> np.ndarray[Any, Any] | None:
    """A view of a constant, which gives its address and keeps it."""
    return None if data is None else np.frombuffer(data, np.uint8)


def crc32(data: Piece, before: int = 0) -> int:
    """What zlib.crc32 says, at about the speed of memory."""
    if not data:
        return before
    return library().hl_crc32(before, np.frombuffer(data, np.uint8).ctypes.data, len(data))


def raise_last_problem() -> NoReturn:
    """Raise what the runtime says went wrong in this thread."""
    problem = RawProblem()
    library().hl_last_problem(ctypes.byref(problem))
    raise_problem(problem)


def raise_problem(problem: RawProblem, raised: BaseException | None = None) -> NoReturn:
    """Raise what the runtime says went wrong; `raised`: what a handler in Python raised."""
    rule, text = problem.rule.decode(), problem.text.decode(errors="replace")
    if not rule:
        if problem.context:
            raised = take_raised(problem.context)
        raise ExecutionError(text, problem.status) from raised
    if rule == "out-of-memory":
        hint = "free buffers, or use smaller shapes; `exe.memory` shows what a run needs"
        raise OutOfMemoryError(text, rule=rule, hint=hint)
    kind = {"object-load": LoadError, "alias": UsageError}.get(rule, HloError)
    raise kind(text, rule=rule)


def largest_value(program: Program) -> str:
    """Which step writes the most bytes, as the end of a message; '' without a step."""
    written = [
        (use.slice.size_bytes, thunk.name)
        for thunk in walk(program.thunks)
        for use in thunk.uses()
        if use.writes
    ]
    size_bytes, name = max(written, default=(0, ""))
    return f"; the largest value, %{name}, takes {size_bytes:,}" if name else ""


def block_names(program: Program) -> list[str]:
    """What messages call the memory of each allocation."""
    writers: dict[int, str] = {}
    for thunk in walk(program.thunks):
        for use in thunk.uses():
            if use.writes:
                writers.setdefault(use.slice.allocation.index, f"%{thunk.name}")
    names = []
    for a in program.allocations:
        what = {"parameter": f"argument {a.parameter_number}", "temp": "value"}.get(a.kind, a.kind)
        where = f" {list(a.shape_index)}" if a.shape_index else ""
        writer = f" (written by {writers[a.index]})" if a.index in writers else ""
        names.append(f"{what}{where}{writer} of {program.name}")
    return names
