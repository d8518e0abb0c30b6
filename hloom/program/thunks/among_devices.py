"""What all thunks have that ask which device this is, or wait for others."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from hloom.program.thunks.routine import Argument
from hloom.program.thunks.thunk import Rates, Thunk


@dataclass(frozen=True, eq=False)
class AmongDevices(Thunk):
    """A call of the runtime, `symbol(context, arguments...)`, which asks the communicator."""

    symbol: ClassVar[str]

    @property
    @abstractmethod
    def arguments(self) -> tuple[Argument, ...]:
        """What it is called with."""

    def states(self) -> tuple[str, ...]:
        return ("devices",)

    def particulars(self) -> str:
        return ""

    def serial_ns(self, rates: Rates) -> float:
        return sum([u.slice.size_bytes for u in self.uses()]) * rates.routine_byte_ns
