"""Running a compiled kernel over its grid."""

from __future__ import annotations

from dataclasses import dataclass

from hloom.program.slice import BufferSlice
from hloom.program.thunks.thunk import Rates, Thunk, Use, thunk_kind


@thunk_kind
@dataclass(frozen=True, eq=False)
class Kernel(Thunk):
    """`symbol(arguments, begin, end)` for all steps of the grid, cut among the threads.

    `cost_ns` is a guess of the time of one step; `writes[k]` says whether argument k is written.
    """

    kind = "Kernel"
    symbol: str
    arguments: tuple[BufferSlice, ...]
    writes: tuple[bool, ...]
    steps: int
    cost_ns: float

    def uses(self) -> tuple[Use, ...]:
        return tuple([Use(s, w) for s, w in zip(self.arguments, self.writes)])

    def particulars(self) -> str:
        return f" @{self.symbol}, {self.steps:,} steps of {self.cost_ns:,.0f} ns"

    def serial_ns(self, rates: Rates) -> float:
        return self.steps * self.cost_ns

    def elapsed_ns(self, rates: Rates, units: int) -> float:
        grain = rates.grain(self.steps, self.cost_ns, units)
        parts = -(-self.steps // grain) if grain else 1
        return self.serial_ns(rates) / max(1, min(units, parts))
