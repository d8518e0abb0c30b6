"""Calls of computations, which are sequences of thunks of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hloom.program.thunks.thunk import (
    Nested,
    Rates,
    Thunk,
    Use,
    sequence_elapsed_ns,
    sequence_ns,
    thunk_kind,
)


@thunk_kind
@dataclass(frozen=True, eq=False)
class Call(Thunk):
    """Run a sequence."""

    kind = "Call"
    called: tuple[Thunk, ...]

    def uses(self) -> tuple[Use, ...]:
        return ()

    def particulars(self) -> str:
        return ""

    def serial_ns(self, rates: Rates) -> float:
        return sequence_ns(self.called, rates)

    def elapsed_ns(self, rates: Rates, units: int) -> float:
        return sequence_elapsed_ns(self.called, rates, units)

    def nested(self) -> tuple[Nested, ...]:
        return (Nested(self.name, self.called),)

    def with_nested(self, parts: Sequence[tuple[Thunk, ...]]) -> Thunk:
        return replace(self, called=parts[0])
