"""The debug executor: a program step by step from Python, timed and watched.

The kernels and routines are those that the program runs, called one at a time, so what is found
here is true of the real run. Three things can be watched:

* times: each step is timed around its native call alone;
* numbers: after each step, what it wrote is searched for NaN and infinities that it was not given;
* bounds: each step works on copies of its buffers with guards around them. A guard that is changed,
  or a buffer that is changed and was only to be read, names the step that did it.

A step may also be run by something else than its machine code (`replace`), such as the interpreter
of kernels. Loops and choices are driven from here; all runs inside one `hl_execute`, so threads,
rounding and errors are those of a real run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.base.clock import performance
from hloom.base.diagnostics import HloError
from hloom.device.device import Device
from hloom.program.slice import BufferSlice
from hloom.program.thunks.control import Call, Conditional, While
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.routine import Argument, Function, Numbers, Pointers, Routine, Text
from hloom.program.thunks.thunk import Thunk
from hloom.runtime.buffer import Buffer
from hloom.runtime.executor import Executor
from hloom.runtime.guards import Region, regions_of
from hloom.runtime.native import library

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
MAIN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
FAILED = 13


class BoundsError(HloError):
    """A step wrote where it must not."""


@dataclass(slots=True)
class StepTime:
    """A step of the program: how often it ran, and how long all that took."""

    thunk: Thunk
    runs: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """A step that wrote numbers which are not finite, although all it read were."""

    thunk: Thunk
    slice: BufferSlice
    nan: int
    inf: int
    inputs: dict[BufferSlice, Bytes]
    """What the step read, as it was before."""

    def __str__(self) -> str:
        found = [f"{n:,} {what}" for n, what in ((self.nan, "NaN"), (self.inf, "infinite")) if n]
        return f"%{self.thunk.name} is the first that makes {' and '.join(found)} elements"


@dataclass(frozen=True)
class Watch:
    """What the debug executor does beside running."""

    type_of: Callable[[Thunk, BufferSlice], np.dtype[Any] | None] | None = None
    """The type of the elements that a step keeps in a slice: asked for to search for NaN."""
    guards: bool = False
    replace: Callable[[Kernel, list[Bytes]], bool] | None = None
    """Runs a kernel on the bytes of its arguments instead; False: it was not run."""
    step: Callable[[Thunk], None] | None = None
    """Told of each step before it runs."""


class DebugExecutor:
    """Runs a program from Python; it is used by one thread at a time."""

    def __init__(self, executor: Executor, device: Device, watch: Watch | None = None) -> None:
        """`device`: whose costs say what is shared by threads, as in the program."""
        self.executor = executor
        self.device = device
        self.watch = watch or Watch()
        self.steps: dict[Thunk, StepTime] = {}
        self.finding: Finding | None = None
        """The first step that made numbers which are not finite."""
        self._context = 0
        self._bases: Any = None
        self._symbols: dict[str, Any] = {}

    def run(self, leaves: Sequence[Any]) -> list[Buffer | None]:
        """As `Executor.run`."""
        errors: list[BaseException] = []

        def main(context: int, buffers: int) -> int:
            self._context = context
            self._bases = ctypes.cast(buffers, ctypes.POINTER(ctypes.c_void_p))
            try:
                return self._sequence(self.executor.program.thunks)
            except BaseException as error:
                errors.append(error)
                return FAILED

        callback = MAIN(main)
        entry = ctypes.cast(callback, ctypes.c_void_p).value
        try:
            return self.executor.run(leaves, entry)
        except HloError:
            if errors:
                raise errors[0] from None
            raise

    # -- steps

    def _sequence(self, thunks: Iterable[Thunk]) -> int:
        for t in thunks:
            if isinstance(t, While):
                status = self._while(t)
            elif isinstance(t, Conditional):
                status = self._sequence(t.branches[self._branch(t)])
            elif isinstance(t, Call):
                status = self._sequence(t.called)
            else:
                status = self._step(t)
            if status:
                return status
        return 0

    def _while(self, t: While) -> int:
        left = t.trip_count
        while True:
            if left is not None:
                if left <= 0:
                    return 0
                left -= 1
            else:
                if status := self._sequence(t.condition):
                    return status
                if not self._bytes(t.pred)[0]:
                    return 0
            if status := self._sequence(t.body):
                return status

    def _branch(self, t: Conditional) -> int:
        raw = self._bytes(t.selector)
        if t.is_pred:
            return 0 if raw[0] else 1
        chosen = int(raw[:4].view(np.int32)[0])
        last = len(t.branches) - 1
        return chosen if 0 <= chosen <= last else last

    def _step(self, t: Thunk) -> int:
        watch = self.watch
        if watch.step is not None:
            watch.step(t)
        before = self._inputs(t) if watch.type_of is not None and self.finding is None else None
        regions = regions_of(t, self._address) if watch.guards else None
        record = self.steps.get(t)
        if record is None:
            record = self.steps[t] = StepTime(t)
        status, seconds = self._native(t, regions)
        record.runs += 1
        record.seconds += seconds
        for region in regions or ():
            if wrong := region.finish():
                raise BoundsError(
                    wrong,
                    instruction=f"%{t.name}",
                    rule="bounds",
                    hint="this is a bug of hloom: please report the program",
                )
        if before is not None and not status:
            self._search(t, before)
        return status

    def _native(self, t: Thunk, regions: list[Region] | None) -> tuple[int, float]:
        """Run one step; its status, and the seconds it took."""

        def place(s: BufferSlice) -> int:
            for region in regions or ():
                if region.holds(s):
                    return region.address_of(s)
            return self._address(s)

        now = performance
        if isinstance(t, Copy):
            target, source = place(t.target), place(t.source)
            start = now()
            ctypes.memmove(target, source, t.target.size_bytes)
            return 0, now() - start
        if isinstance(t, Kernel):
            return self._kernel(t, place)
        assert isinstance(t, Routine)
        function = getattr(library(), t.symbol)
        held: list[Any] = []
        values = [self._argument(x, place, held) for x in t.arguments]
        function.restype = ctypes.c_int32
        function.argtypes = [ctypes.c_void_p, *map(type, values)]
        start = now()
        status = function(self._context, *values)
        return status, now() - start

    def _kernel(self, t: Kernel, place: Callable[[BufferSlice], int]) -> tuple[int, float]:
        addresses = [place(s) for s in t.arguments]
        now = performance
        if self.watch.replace is not None:
            arrays = [memory(a, s.size_bytes) for a, s in zip(addresses, t.arguments)]
            start = now()
            if self.watch.replace(t, arrays):
                return 0, now() - start
        arguments = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        grain = self.device.costs.grain(t.steps, t.cost_ns, self.device.compute.units)
        if t.steps == 1 or not grain:
            call = self._symbols.get(t.symbol)
            if call is None:
                kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
                call = self._symbols[t.symbol] = kind(self.executor.loaded.symbol(t.symbol))
            start = now()
            call(arguments, 0, t.steps)
            return 0, now() - start
        address = self.executor.loaded.symbol(t.symbol)
        split = library().hl_parallel_for_ns
        start = now()
        split(self._context, address, arguments, t.steps, grain, int(t.steps * t.cost_ns))
        return 0, now() - start

    def _argument(self, x: Argument, place: Callable[[BufferSlice], int], held: list[Any]) -> Any:
        """An argument of a routine as ctypes hands it over; `held` keeps what it points to."""
        if x is None or (isinstance(x, Numbers) and not x.values):
            return ctypes.c_void_p(None)
        if isinstance(x, int):
            return ctypes.c_int64(x)
        if isinstance(x, BufferSlice):
            return ctypes.c_void_p(place(x))
        if isinstance(x, Function):
            return ctypes.c_void_p(self.executor.loaded.symbol(x.symbol))
        if isinstance(x, Numbers):
            made: Any = (ctypes.c_int64 * len(x.values))(*x.values)
        elif isinstance(x, Pointers):
            places = [None if s is None else place(s) for s in x.slices]
            made = (ctypes.c_void_p * max(len(places), 1))(*places)
        else:
            assert isinstance(x, Text)
            made = ctypes.create_string_buffer(x.data)
        held.append(made)
        return ctypes.cast(made, ctypes.c_void_p)

    # -- memory

    def _address(self, s: BufferSlice) -> int:
        return (self._bases[s.allocation.index] or 0) + s.offset

    def _bytes(self, s: BufferSlice) -> Bytes:
        return memory(self._address(s), s.size_bytes)

    def _inputs(self, t: Thunk) -> dict[BufferSlice, Bytes]:
        """Copies of what a step reads, and of what it changes."""
        return {u.slice: self._bytes(u.slice).copy() for u in t.uses()}

    def _search(self, t: Thunk, before: dict[BufferSlice, Bytes]) -> None:
        """Record the step if it made NaN or infinities of finite numbers."""
        assert self.watch.type_of is not None
        reads = {u.slice for u in t.uses() if not u.writes}
        for use in t.uses():
            if not use.writes:
                continue
            nan, inf = not_finite(self._bytes(use.slice), self.watch.type_of(t, use.slice))
            if not nan and not inf:
                continue
            given = [not_finite(before[s], self.watch.type_of(t, s)) for s in reads]
            if not any(n or i for n, i in given):
                self.finding = Finding(t, use.slice, nan, inf, before)
                return


def memory(address: int, size_bytes: int) -> Bytes:
    """The bytes at an address; nothing is copied."""
    if not size_bytes:
        return np.empty(0, np.uint8)
    return np.frombuffer(memoryview((ctypes.c_uint8 * size_bytes).from_address(address)), np.uint8)


def not_finite(raw: Bytes, dtype: np.dtype[Any] | None) -> tuple[int, int]:
    """How many elements of these bytes are NaN, and how many infinite; none where untyped."""
    if dtype is None:
        return 0, 0
    array = raw[: raw.size // dtype.itemsize * dtype.itemsize].view(dtype)
    if dtype.kind in "biu":
        return 0, 0
    if dtype.kind == "V" or dtype.itemsize < 4:
        with np.errstate(all="ignore"):
            array = array.astype(np.float32)
    return int(np.isnan(array).sum()), int(np.isinf(array).sum())
