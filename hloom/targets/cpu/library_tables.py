"""The tables of a C library's routines, as an object: plans of Fourier transforms."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Collection

from hloom.codegen.llvm.c_fft import TABLES, FftTables, fft_plans_text
from hloom.codegen.llvm.compile import module_text
from hloom.codegen.llvm.other_machine import machine_of, object_for
from hloom.program.program import Processor
from hloom.runtime.library import library

_NUMBERS, _PASSES, _FIRST_TABLE = 0, 1, 2
"""Parts of a plan, as native/fft.h has them."""


def fft_plans_object(
    prefix: str, lengths: Collection[tuple[int, bool]], processor: Processor
) -> bytes:
    """The plans of lengths (and whether of f64) under the library's name."""
    plans = {key: _tables(*key) for key in lengths}
    machine = machine_of(processor)
    text = module_text(machine, [fft_plans_text(prefix, plans)], ())
    return object_for(text, machine, 1)


def _tables(n: int, is_double: bool) -> FftTables:
    """A plan as the runtime makes it: the values are the same, bit for bit."""
    numbers = struct.unpack("<4q", _part(n, is_double, _NUMBERS))
    passes = struct.iter_unpack("<3q", _part(n, is_double, _PASSES))
    tables = {name: _part(n, is_double, _FIRST_TABLE + k) for k, name in enumerate(TABLES)}
    return FftTables([(r, m, w) for r, m, w in passes], numbers[2], tables)


def _part(n: int, is_double: bool, part: int) -> bytes:
    native = library()
    size = native.hl_fft_plan(n, is_double, part, None)
    assert size >= 0
    data = ctypes.create_string_buffer(max(size, 1))
    native.hl_fft_plan(n, is_double, part, data)
    return data.raw[:size]
