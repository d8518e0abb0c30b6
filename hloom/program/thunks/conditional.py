"""Choices among sequences of thunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hloom.program.slice import BufferSlice
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
class Conditional(Thunk):
    """Run one of the branches: by an s32 (out of range: the last), or by a pred (0 is false).

    With `is_pred` the first branch is that for true, as HLO has it.
    """

    kind = "Conditional"
    selector: BufferSlice
    is_pred: bool
    branches: tuple[tuple[Thunk, ...], ...]
    names: tuple[str, ...]

    def uses(self) -> tuple[Use, ...]:
        return (Use(self.selector, False),)

    def particulars(self) -> str:
        return ""

    def serial_ns(self, rates: Rates) -> float:
        return max([sequence_ns(branch, rates) for branch in self.branches], default=0.0)

    def elapsed_ns(self, rates: Rates, units: int) -> float:
        times = [sequence_elapsed_ns(branch, rates, units) for branch in self.branches]
        return max(times, default=0.0)

    def nested(self) -> tuple[Nested, ...]:
        return tuple([Nested(n, b) for n, b in zip(self.names, self.branches)])

    def with_nested(self, parts: Sequence[tuple[Thunk, ...]]) -> Thunk:
        return replace(self, branches=tuple(parts))
