"""Which device of the program this is."""

from __future__ import annotations

from dataclasses import dataclass

from hloom.program.slice import BufferSlice
from hloom.program.thunks.among_devices import AmongDevices
from hloom.program.thunks.routine import Argument, Text
from hloom.program.thunks.thunk import Use, thunk_kind


@dataclass(frozen=True, eq=False)
class _Number(AmongDevices):
    """The number of this device divided by one number, modulo another."""

    symbol = "hl_device_number"
    divisor: int
    modulus: int
    target: BufferSlice

    @property
    def arguments(self) -> tuple[Argument, ...]:
        return (Text(self.name.encode()), self.divisor, self.modulus, self.target)

    def uses(self) -> tuple[Use, ...]:
        return (Use(self.target, True),)

    def states(self) -> tuple[str, ...]:
        return ()


@thunk_kind
@dataclass(frozen=True, eq=False)
class PartitionId(_Number):
    """The partition this device is."""

    kind = "PartitionId"


@thunk_kind
@dataclass(frozen=True, eq=False)
class ReplicaId(_Number):
    """The replica this device is."""

    kind = "ReplicaId"
