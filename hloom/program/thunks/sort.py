"""Sorting rows, and the largest few of them."""

from __future__ import annotations

from hloom.program.thunks.routine import Routine
from hloom.program.thunks.thunk import thunk_kind


@thunk_kind
class Sort(Routine):
    """Sort along one dimension, by keys or by a compiled comparator."""

    kind = "Sort"


@thunk_kind
class TopK(Routine):
    """The largest or smallest of each row, in order."""

    kind = "TopK"
