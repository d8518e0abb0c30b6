"""Loops and choices, which hold sequences of thunks."""

from __future__ import annotations

from dataclasses import dataclass

from hloom.program.slice import BufferSlice
from hloom.program.thunks.thunk import Nested, Thunk, Use


@dataclass(frozen=True, eq=False)
class While(Thunk):
    """Run the condition, and while the byte at `pred` is not 0 the body and the condition again.

    `trip_count` is how often the body runs where that is known before: the condition is then not
    run at all.
    """

    kind = "While"
    condition: tuple[Thunk, ...]
    pred: BufferSlice
    body: tuple[Thunk, ...]
    trip_count: int | None = None

    def uses(self) -> tuple[Use, ...]:
        return () if self.trip_count is not None else (Use(self.pred, False),)

    def nested(self) -> tuple[Nested, ...]:
        return (Nested("condition", self.condition), Nested("body", self.body))


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

    def nested(self) -> tuple[Nested, ...]:
        return tuple([Nested(n, b) for n, b in zip(self.names, self.branches)])


@dataclass(frozen=True, eq=False)
class Call(Thunk):
    """Run a sequence."""

    kind = "Call"
    called: tuple[Thunk, ...]

    def nested(self) -> tuple[Nested, ...]:
        return (Nested(self.name, self.called),)
