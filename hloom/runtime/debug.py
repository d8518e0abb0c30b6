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
from typing import Any, TypeVar

import numpy as np

from hloom.base.clock import performance
from hloom.base.diagnostics import HloError
from hloom.device.device import Device
from hloom.program.slice import BufferSlice
from hloom.program.thunks.among_devices import AmongDevices
from hloom.program.thunks.collective import CollectiveStart
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.thunk import Thunk
from hloom.runtime.buffer import Buffer
from hloom.runtime.debug_steps import STEPS, AddressOf, Bytes, Prepare, memory
from hloom.runtime.executor import Executor
from hloom.runtime.guards import GuardedCopy, guarded_copies
from hloom.runtime.library import library

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
    waited_s: float = 0.0
    """What of it was spent waiting for other devices."""


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
        counts = [f"{n:,} {what}" for n, what in ((self.nan, "NaN"), (self.inf, "infinite")) if n]
        return f"%{self.thunk.name} is the first that makes {' and '.join(counts)} elements"


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


Outcome = TypeVar("Outcome")


def run_in_place(main: Callable[[int, int], int], run: Callable[[int | None], Outcome]) -> Outcome:
    """`run(entry)`, where `entry` is the address of `main`, which is called in place of a program's
    own with the addresses of the context and of its buffers. Its error is raised as it is."""
    errors: list[BaseException] = []

    def guarded(context: int, buffers: int) -> int:
        try:
            return main(context, buffers)
        except BaseException as error:
            errors.append(error)
            return FAILED

    callback = MAIN(guarded)
    try:
        return run(ctypes.cast(callback, ctypes.c_void_p).value)
    except HloError:
        if errors:
            raise errors[0] from None
        raise


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
        self.context = 0
        """Address of the context that the program runs in."""
        self.numbers: dict[tuple[int, ...], Any] = {}
        """Constant arrays of arguments: devices know a collective by the address of its own."""
        self._bases: Any = None
        self._symbols: dict[str, Any] = {}

    def run(self, leaves: Sequence[Any]) -> list[Buffer | None]:
        """As `Executor.run`."""

        def main(context: int, buffers: int) -> int:
            self.enter(context, buffers)
            return self.sequence(self.executor.program.thunks)

        return run_in_place(main, lambda entry: self.executor.run(leaves, entry))

    def enter(self, context: int, buffers: int) -> None:
        """Work in the context of a native call, on its array of base addresses."""
        self.context = context
        self._bases = ctypes.cast(buffers, ctypes.POINTER(ctypes.c_void_p))

    # -- steps

    def sequence(self, thunks: Iterable[Thunk]) -> int:
        """Run thunks one after another, until one fails; its status, or 0."""
        for t in thunks:
            if status := STEPS.for_class(type(t))(self, t):
                return status
        return 0

    def watched(self, t: Thunk, prepare: Prepare) -> int:
        """Run a step with all that is asked for being watched; its status.

        `prepare` is told where each slice stands, and gives the native call, which is timed.
        """
        watch = self.watch
        if watch.step is not None:
            watch.step(t)
        is_searched = watch.type_of is not None and self.finding is None
        # What a start writes comes later, and others read and write where it says.
        before = self._inputs(t) if is_searched and not isinstance(t, CollectiveStart) else None
        is_guarded = watch.guards and not isinstance(t, AmongDevices)
        copies = guarded_copies(t, self._address) if is_guarded else None
        record = self.steps.get(t)
        if record is None:
            record = self.steps[t] = StepTime(t)
        call = prepare(self._address_in(copies))
        waited_s = self._waited_s(t)
        start = performance()
        status = call()
        seconds = performance() - start
        record.runs += 1
        record.seconds += seconds
        record.waited_s += self._waited_s(t) - waited_s
        for copy in copies or ():
            if wrong := copy.finish():
                raise BoundsError(
                    wrong,
                    instruction=f"%{t.name}",
                    rule="bounds",
                    hint="this is a bug of hloom: please report the program",
                )
        if before is not None and not status:
            self._search(t, before)
        return status

    def _waited_s(self, t: Thunk) -> float:
        """How long this device has waited for others, where a step may do so."""
        if not isinstance(t, AmongDevices):
            return 0.0
        return library().hl_device_waited_ns(ctypes.c_void_p(self.context)) * 1e-9

    def _address_in(self, copies: list[GuardedCopy] | None) -> AddressOf:
        def address_of(s: BufferSlice) -> int:
            for copy in copies or ():
                if copy.holds(s):
                    return copy.address_of(s)
            return self._address(s)

        return address_of

    def kernel_function(self, symbol: str) -> Any:
        """A kernel of the program, to be called with its arguments, begin and end."""
        call = self._symbols.get(symbol)
        if call is None:
            kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
            call = self._symbols[symbol] = kind(self.executor.loaded.symbol(symbol))
        return call

    # -- memory

    def _address(self, s: BufferSlice) -> int:
        return (self._bases[s.allocation.index] or 0) + s.offset

    def bytes_of(self, s: BufferSlice) -> Bytes:
        """What stands in a slice now."""
        return memory(self._address(s), s.size_bytes)

    def _inputs(self, t: Thunk) -> dict[BufferSlice, Bytes]:
        """Copies of what a step reads, and of what it changes."""
        return {u.slice: self.bytes_of(u.slice).copy() for u in t.uses()}

    def _search(self, t: Thunk, before: dict[BufferSlice, Bytes]) -> None:
        """Record the step if it made NaN or infinities of finite numbers."""
        assert self.watch.type_of is not None
        reads = {u.slice for u in t.uses() if not u.writes}
        for use in t.uses():
            if not use.writes:
                continue
            nan, inf = not_finite(self.bytes_of(use.slice), self.watch.type_of(t, use.slice))
            if not nan and not inf:
                continue
            read_counts = [not_finite(before[s], self.watch.type_of(t, s)) for s in reads]
            if not any(n or i for n, i in read_counts):
                self.finding = Finding(t, use.slice, nan, inf, before)
                return


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
