"""Data to and from handlers of the host, by channel, while the program runs.

A send hands its data over before it returns, a receive waits until it is awaited; so there is one
thunk for each pair of instructions, as there is between devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hloom.program.slice import BufferSlice
from hloom.program.thunks.routine import Argument, NamedRoutine, Text
from hloom.program.thunks.thunk import Rates, Use, thunk_kind


@dataclass(frozen=True, eq=False)
class _HostTransfer(NamedRoutine):
    """`array` is the text of the shape, which handlers are told."""

    channel: int
    array: str
    data: BufferSlice

    writes_data: ClassVar[bool]

    @property
    def arguments(self) -> tuple[Argument, ...]:
        texts = Text(self.name.encode()), Text(self.array.encode())
        return (*texts, self.channel, self.data, self.data.size_bytes)

    def uses(self) -> tuple[Use, ...]:
        return (Use(self.data, self.writes_data),)

    def states(self) -> tuple[str, ...]:
        return ("host",)

    def particulars(self) -> str:
        return f", channel {self.channel}"

    def serial_ns(self, rates: Rates) -> float:
        return rates.foreign_ns


@thunk_kind
@dataclass(frozen=True, eq=False)
class HostSend(_HostTransfer):
    """Hand data to the handler of a channel."""

    kind = "HostSend"
    symbol = "hl_host_send"
    writes_data = False


@thunk_kind
@dataclass(frozen=True, eq=False)
class HostRecv(_HostTransfer):
    """Await data from the handler of a channel."""

    kind = "HostRecv"
    symbol = "hl_host_receive"
    writes_data = True
