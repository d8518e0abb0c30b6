"""Loops, which hold two sequences of thunks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

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

GUESSED_TRIPS: Final = 100
"""Of a loop that runs as long as it likes, to compare it with what stands beside it."""


@thunk_kind
@dataclass(frozen=True, eq=False)
class While(Thunk):
    """Run the condition, and while the byte at `pred` is not 0 the body and the condition again.

    `trip_count` is how often the body runs where that is known before: the condition is then not
    run at all. `carried`: the places of its state, what iterations hand on and leave behind.
    """

    kind = "While"
    condition: tuple[Thunk, ...]
    pred: BufferSlice
    body: tuple[Thunk, ...]
    trip_count: int | None = None
    carried: tuple[BufferSlice, ...] = ()

    def uses(self) -> tuple[Use, ...]:
        return () if self.trip_count is not None else (Use(self.pred, False),)

    def particulars(self) -> str:
        return "" if self.trip_count is None else f", {self.trip_count:,} times"

    def serial_ns(self, rates: Rates) -> float:
        if self.trip_count is None:
            return math.inf
        return self.trip_count * sequence_ns(self.body, rates) if self.trip_count else 0.0

    def elapsed_ns(self, rates: Rates, units: int) -> float:
        trips = GUESSED_TRIPS if self.trip_count is None else self.trip_count
        condition = 0.0
        if self.trip_count is None:
            condition = sequence_elapsed_ns(self.condition, rates, units)
        return trips * (condition + sequence_elapsed_ns(self.body, rates, units))

    def nested(self) -> tuple[Nested, ...]:
        return (Nested("condition", self.condition), Nested("body", self.body))

    def with_nested(self, parts: Sequence[tuple[Thunk, ...]]) -> Thunk:
        condition, body = parts
        return replace(self, condition=condition, body=body)
