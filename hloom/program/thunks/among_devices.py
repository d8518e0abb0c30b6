"""What all thunks have that ask which device this is, or wait for others."""

from __future__ import annotations

from dataclasses import dataclass

from hloom.program.thunks.routine import NamedRoutine
from hloom.program.thunks.thunk import Rates


@dataclass(frozen=True, eq=False)
class AmongDevices(NamedRoutine):
    """A call of the runtime which asks the communicator."""

    meets_others = True

    def states(self) -> tuple[str, ...]:
        return ("devices",)

    def particulars(self) -> str:
        return ""

    def serial_ns(self, rates: Rates) -> float:
        return sum([u.slice.size_bytes for u in self.uses()]) * rates.routine_byte_ns
