"""What the host sends while the program runs."""

from __future__ import annotations

from hloom.program.thunks.routine import Routine
from hloom.program.thunks.thunk import thunk_kind


@thunk_kind
class Infeed(Routine):
    """Wait for the next item and copy it."""

    kind = "Infeed"

    def states(self) -> tuple[str, ...]:
        return ("infeed",)
