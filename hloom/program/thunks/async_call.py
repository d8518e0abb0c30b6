"""A computation in two halves: it begins at one place of a program and is awaited at another."""

from __future__ import annotations

from dataclasses import dataclass

from hloom.program.slice import BufferSlice
from hloom.program.thunks.call import Call
from hloom.program.thunks.thunk import Rates, Thunk, Use, thunk_kind


@thunk_kind
@dataclass(frozen=True, eq=False)
class AsyncStart(Call):
    """Begin a sequence, on the stream of its thread where streams are told apart.

    Operands and results belong to it until its done. Where nothing runs side by side it has ended
    with its last step.
    """

    kind = "AsyncStart"
    thread: str = "main"
    """The execution thread that the program names."""

    def particulars(self) -> str:
        return "" if self.thread == "main" else f", thread {self.thread}"


@thunk_kind
@dataclass(frozen=True, eq=False)
class AsyncDone(Thunk):
    """Wait for a sequence that has begun: whoever uses its results comes after this.

    That it waits is said by what it uses, which is what the start uses: operands and results.
    """

    kind = "AsyncDone"
    start: str
    """The name of the start."""
    operands: tuple[BufferSlice, ...]
    results: tuple[BufferSlice, ...]

    def uses(self) -> tuple[Use, ...]:
        return (*[Use(s, False) for s in self.operands], *[Use(s, True) for s in self.results])

    def particulars(self) -> str:
        return f" of {self.start}"

    def serial_ns(self, rates: Rates) -> float:
        return 0.0
