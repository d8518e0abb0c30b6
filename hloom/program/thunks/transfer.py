"""Data from one device of a program to another.

A send puts its data aside and never waits, so it is over when it has begun; a receive has nothing
to do before it is awaited. So there is one thunk for each pair of instructions, send and
send-done, recv and recv-done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from hloom.program.slice import BufferSlice
from hloom.program.thunks.among_devices import AmongDevices
from hloom.program.thunks.routine import Argument, Numbers, Text
from hloom.program.thunks.thunk import Use, thunk_kind


class Pair(NamedTuple):
    """A source and a target device."""

    source: int
    target: int


@dataclass(frozen=True, eq=False)
class _Transfer(AmongDevices):
    """`pairs` None: what a device sends it receives itself."""

    channel: int
    pairs: tuple[Pair, ...] | None
    data: BufferSlice

    @property
    def arguments(self) -> tuple[Argument, ...]:
        name, size = Text(self.name.encode()), self.data.size_bytes
        if self.pairs is None:
            return (name, self.channel, None, 0, self.data, size)
        numbers = Numbers(tuple([d for pair in self.pairs for d in pair]) or (-1, -1))
        return (name, self.channel, numbers, len(self.pairs), self.data, size)

    def particulars(self) -> str:
        return f", channel {self.channel}"


@thunk_kind
@dataclass(frozen=True, eq=False)
class Send(_Transfer):
    """Send to the targets of this device."""

    kind = "Send"
    symbol = "hl_send"

    def uses(self) -> tuple[Use, ...]:
        return (Use(self.data, False),)


@thunk_kind
@dataclass(frozen=True, eq=False)
class Recv(_Transfer):
    """Await what the source of this device sends; one that is no target gets zeros."""

    kind = "Recv"
    symbol = "hl_receive"

    def uses(self) -> tuple[Use, ...]:
        return (Use(self.data, True),)
