"""How the debug executor runs each kind of thunk: one function a kind, `@STEPS.of(Copy)`.

A step that does something itself is `debug.watched`: it says how its native call is prepared, given
where slices stand, and that call is timed. Loops and choices run sequences.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.base.diagnostics import HloError
from hloom.base.registry import ByClass
from hloom.program.graph import races
from hloom.program.slice import BufferSlice
from hloom.program.thunks.async_call import AsyncDone
from hloom.program.thunks.async_copy import CopyDone
from hloom.program.thunks.call import Call
from hloom.program.thunks.concurrent import Concurrent
from hloom.program.thunks.conditional import Conditional
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.routine import (
    Addresses,
    Argument,
    Function,
    NamedRoutine,
    Numbers,
    Pointers,
    Routine,
    Text,
)
from hloom.program.thunks.while_ import While
from hloom.runtime.library import library

if TYPE_CHECKING:
    from hloom.runtime.debug import DebugExecutor

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
AddressOf = Callable[[BufferSlice], int]
"""The address of a slice."""
Prepare = Callable[[AddressOf], Callable[[], int]]
"""From where slices stand to the native call, which gives a status."""

STEPS: ByClass[Callable[[DebugExecutor, Any], int]] = ByClass("debug step for a thunk")
"""They give a status: 0, or that of the error that ends the program."""


@STEPS.of(Copy)
def copy(debug: DebugExecutor, t: Copy) -> int:
    def prepare(address_of: AddressOf) -> Callable[[], int]:
        target, source, size = address_of(t.target), address_of(t.source), t.target.size_bytes

        def call() -> int:
            ctypes.memmove(target, source, size)
            return 0

        return call

    return debug.watched(t, prepare)


@STEPS.of(Kernel)
def kernel(debug: DebugExecutor, t: Kernel) -> int:
    def prepare(address_of: AddressOf) -> Callable[[], int]:
        addresses = [address_of(s) for s in t.arguments]
        native = _kernel_call(debug, t, addresses)
        replace = debug.watch.replace
        if replace is None:
            return native
        arrays = [memory(a, s.size_bytes) for a, s in zip(addresses, t.arguments)]
        return lambda: 0 if replace(t, arrays) else native()

    return debug.watched(t, prepare)


def _kernel_call(debug: DebugExecutor, t: Kernel, addresses: list[int]) -> Callable[[], int]:
    """The call of a kernel that the program makes; it gives 0."""
    arguments = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
    costs, units = debug.device.costs, debug.device.compute.units
    grain = costs.grain(t.steps, t.cost_ns, units)
    if t.steps == 1 or not grain:
        call = debug.kernel_function(t.symbol)
        return lambda: call(arguments, 0, t.steps) or 0
    address = debug.executor.loaded.symbol(t.symbol)
    split, cost_ns = library().hl_parallel_for_ns, int(t.steps * t.cost_ns)
    return lambda: split(debug.context, address, arguments, t.steps, grain, cost_ns) or 0


@STEPS.of(Routine)
@STEPS.of(NamedRoutine)
def routine(debug: DebugExecutor, t: Routine | NamedRoutine) -> int:
    def prepare(address_of: AddressOf) -> Callable[[], int]:
        function = getattr(library(), t.symbol)
        alive: list[Any] = []
        values = [_argument(debug, x, address_of, alive) for x in t.arguments]
        function.restype = ctypes.c_int32
        function.argtypes = [ctypes.c_void_p, *map(type, values)]

        def call() -> int:
            status = function(debug.context, *values)
            alive.clear()
            return status

        return call

    return debug.watched(t, prepare)


def _argument(debug: DebugExecutor, x: Argument, address_of: AddressOf, pointer: list[Any]) -> Any:
    """An argument of a routine as ctypes hands it over; `alive` keeps what it points to."""
    if x is None or (isinstance(x, Numbers) and not x.values):
        return ctypes.c_void_p(None)
    if isinstance(x, int):
        return ctypes.c_int64(x)
    if isinstance(x, BufferSlice):
        return ctypes.c_void_p(address_of(x))
    if isinstance(x, Function):
        return ctypes.c_void_p(debug.executor.loaded.symbol(x.symbol))
    if isinstance(x, Numbers):
        # One for all devices, whose threads may come here at the same time.
        new = (ctypes.c_int64 * len(x.values))(*x.values)
        alive: Any = debug.numbers.setdefault(x.values, new)
    elif isinstance(x, Pointers):
        pointers = [None if s is None else address_of(s) for s in x.slices]
        alive = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
    elif isinstance(x, Addresses):
        symbol = debug.executor.loaded.symbol
        pointers = [
            symbol(p.symbol) if isinstance(p, Function) else address_of(p) for p in x.places
        ]
        alive = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
    else:
        assert isinstance(x, Text)
        alive = ctypes.create_string_buffer(x.data)
    pointer.append(alive)
    return ctypes.cast(alive, ctypes.c_void_p)


# -- sequences


@STEPS.of(While)
def while_(debug: DebugExecutor, t: While) -> int:
    left = t.trip_count
    while True:
        if left is not None:
            if left <= 0:
                return 0
            left -= 1
        else:
            if status := debug.sequence(t.condition):
                return status
            if not debug.bytes_of(t.pred)[0]:
                return 0
        if status := debug.sequence(t.body):
            return status


@STEPS.of(Concurrent)
def concurrent(debug: DebugExecutor, t: Concurrent) -> int:
    """One after another, which is a valid order; whether others are, too, is looked at."""
    if debug.watch.guards and (races_ := races(t)):
        raise HloError(
            str(races_[0]),
            instruction=f"%{t.name}",
            rule="race",
            hint="this is a bug of hloom: please report the program",
        )
    for run in t.runs:
        if status := debug.sequence(run.thunks):
            return status
    return 0


@STEPS.of(Conditional)
def conditional(debug: DebugExecutor, t: Conditional) -> int:
    return debug.sequence(t.branches[branch_of(debug, t)])


def branch_of(debug: DebugExecutor, t: Conditional) -> int:
    """The number of the branch that is chosen now."""
    raw = debug.bytes_of(t.selector)
    if t.is_pred:
        return 0 if raw[0] else 1
    chosen = int(raw[:4].view(np.int32)[0])
    last = len(t.branches) - 1
    return chosen if 0 <= chosen <= last else last


@STEPS.of(Call)
def call(debug: DebugExecutor, t: Call) -> int:
    return debug.sequence(t.called)


@STEPS.of(AsyncDone)
@STEPS.of(CopyDone)
def async_done(debug: DebugExecutor, t: AsyncDone | CopyDone) -> int:
    """The start has ended by then."""
    return 0


def memory(address: int, size_bytes: int) -> Bytes:
    """The bytes at an address; nothing is copied."""
    if not size_bytes:
        return np.empty(0, np.uint8)
    return np.frombuffer(memoryview((ctypes.c_uint8 * size_bytes).from_address(address)), np.uint8)
