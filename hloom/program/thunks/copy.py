"""Copying bytes."""

from __future__ import annotations

from dataclasses import dataclass

from hloom.program.slice import BufferSlice
from hloom.program.thunks.thunk import Rates, Thunk, Use, thunk_kind


@thunk_kind
@dataclass(frozen=True, eq=False)
class Copy(Thunk):
    """Copy all bytes of `source` to `target`."""

    kind = "Copy"
    source: BufferSlice
    target: BufferSlice

    def uses(self) -> tuple[Use, ...]:
        return (Use(self.source, False), Use(self.target, True))

    def particulars(self) -> str:
        return ""

    def serial_ns(self, rates: Rates) -> float:
        return self.target.size_bytes * rates.copy_byte_ns
