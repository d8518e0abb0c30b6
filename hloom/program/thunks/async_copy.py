"""A copy between memory spaces in two halves: an engine makes it while others go on."""

from __future__ import annotations

from dataclasses import dataclass

from hloom.program.slice import BufferSlice
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.thunk import Rates, Thunk, Use, thunk_kind


@thunk_kind
@dataclass(frozen=True, eq=False)
class CopyStart(Copy):
    """Begin to copy `source` to `target`, both of which belong to it until its done.

    Where nothing copies beside the kernels it has ended with its last byte.
    """

    kind = "CopyStart"


@thunk_kind
@dataclass(frozen=True, eq=False)
class CopyDone(Thunk):
    """Wait for a copy that has begun: whoever reads its target comes after this.

    That it waits is said by what it uses, which is what the start uses.
    """

    kind = "CopyDone"
    start: str
    """The name of the start."""
    source: BufferSlice
    target: BufferSlice

    def uses(self) -> tuple[Use, ...]:
        return (Use(self.source, False), Use(self.target, True))

    def particulars(self) -> str:
        return f" of {self.start}"

    def serial_ns(self, rates: Rates) -> float:
        return 0.0
