"""Sorting rows, and the largest few of them."""

from __future__ import annotations

from hloom.program.thunks.routine import Routine
from hloom.program.thunks.thunk import thunk_kind

LONG_ROW = 1 << 16
"""From this length on several threads work on one row."""


@thunk_kind
class Sort(Routine):
    """Sort along one dimension, by keys or by a compiled comparator."""

    kind = "Sort"

    def parts(self) -> int:
        outer, n, inner = [x for x in self.arguments[:3] if isinstance(x, int)]
        return outer * inner if outer * inner > 1 else n // LONG_ROW + 1


@thunk_kind
class TopK(Routine):
    """The largest or smallest of each row, in order."""

    kind = "TopK"

    def parts(self) -> int:
        rows, n = [x for x in self.arguments[:2] if isinstance(x, int)]
        return rows if rows > 1 else n // LONG_ROW + 1
