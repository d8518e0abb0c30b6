"""Arrays of run-time size, between the two forms that they have."""

from __future__ import annotations

from hloom.program.thunks.routine import Routine
from hloom.program.thunks.thunk import thunk_kind


@thunk_kind
class PadToStatic(Routine):
    """From the sizes that came with an array to an array of the bounds."""

    kind = "PadToStatic"


@thunk_kind
class SliceToDynamic(Routine):
    """From an array of the bounds, and its sizes, to the form that callers take."""

    kind = "SliceToDynamic"
