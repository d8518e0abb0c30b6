"""What the host is sent while the program runs."""

from __future__ import annotations

from hloom.program.thunks.routine import Routine
from hloom.program.thunks.thunk import thunk_kind


@thunk_kind
class Outfeed(Routine):
    """Hand over a copy of arrays."""

    kind = "Outfeed"

    def states(self) -> tuple[str, ...]:
        return ("outfeed",)
