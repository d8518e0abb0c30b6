"""Sorting rows, and the largest few of them."""

from __future__ import annotations

from math import log2

from hloom.program.thunks.routine import Routine
from hloom.program.thunks.thunk import Rates, thunk_kind

LONG_ROW = 1 << 16
"""From this length on several threads work on one row."""


@thunk_kind
class Sort(Routine):
    """Sort along one dimension, by keys or by a compiled comparator."""

    kind = "Sort"

    def serial_ns(self, rates: Rates) -> float:
        outer, n, inner = self._sizes()
        rows, levels = outer * inner, log2(max(n, 2))
        if self.symbol == "hl_sort_compare":
            return rows * n * levels * rates.compare_ns
        of_row = sum([s.size_bytes for s in self.reads]) / max(rows, 1) * levels
        own_bytes = n * rates.sort_element_bytes + rates.sort_row_bytes
        return rows * (of_row + own_bytes) * rates.sort_byte_ns

    def _sizes(self) -> tuple[int, int, int]:
        """How many rows, how long they are, how many lie beside each other."""
        outer, n, inner = [x for x in self.arguments[:3] if isinstance(x, int)]
        return outer, n, inner

    def parts(self) -> int:
        outer, n, inner = self._sizes()
        return outer * inner if outer * inner > 1 else n // LONG_ROW + 1


@thunk_kind
class TopK(Routine):
    """The largest or smallest of each row, in order."""

    kind = "TopK"

    def serial_ns(self, rates: Rates) -> float:
        rows, n, k = [x for x in self.arguments[:3] if isinstance(x, int)]
        levels = log2(max(n, 1) / min(max(k, 1), max(n, 1))) + 1
        return rows * (n + k * levels * rates.kept_elements) * rates.select_ns

    def parts(self) -> int:
        rows, n = [x for x in self.arguments[:2] if isinstance(x, int)]
        return rows if rows > 1 else n // LONG_ROW + 1
