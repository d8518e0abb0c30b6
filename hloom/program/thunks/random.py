"""The state of the stateful random operations."""

from __future__ import annotations

from hloom.program.thunks.routine import Routine
from hloom.program.thunks.thunk import thunk_kind


@thunk_kind
class RngGetAndUpdateState(Routine):
    """Copy the state, and advance it."""

    kind = "RngGetAndUpdateState"

    def states(self) -> tuple[str, ...]:
        return ("random state",)
