"""What all thunks have that call a routine of the runtime; the kinds are files of their own."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from hloom.program.slice import BufferSlice
from hloom.program.thunks.thunk import Rates, Thunk, Use


class Numbers(NamedTuple):
    """A constant array of s64, handed over by pointer."""

    values: tuple[int, ...]


class Pointers(NamedTuple):
    """An array of pointers to slices (None: a null pointer), handed over by pointer."""

    slices: tuple[BufferSlice | None, ...]


class Function(NamedTuple):
    """The address of a compiled function."""

    symbol: str


class Addresses(NamedTuple):
    """An array of pointers to slices and functions, handed over by pointer."""

    places: tuple[BufferSlice | Function, ...]


class Text(NamedTuple):
    """Constant bytes, handed over by pointer."""

    data: bytes


Argument = int | BufferSlice | Numbers | Pointers | Function | Addresses | Text | None


@dataclass(frozen=True, eq=False)
class NamedRoutine(Thunk):
    """What runs by one call, `symbol(context, arguments...)`: a kind that says both needs neither
    native code nor a debug step of its own. A result that is not 0 is an error."""

    symbol: ClassVar[str]

    @property
    @abstractmethod
    def arguments(self) -> tuple[Argument, ...]:
        """What it is called with."""


@dataclass(frozen=True, eq=False)
class Routine(Thunk):
    """`symbol(context, arguments...)`; a result that is not 0 is an error and ends the program."""

    symbol: str
    arguments: tuple[Argument, ...]
    reads: tuple[BufferSlice, ...] = field(default=())
    writes: tuple[BufferSlice, ...] = field(default=())

    def uses(self) -> tuple[Use, ...]:
        return tuple([Use(s, False) for s in self.reads] + [Use(s, True) for s in self.writes])

    def particulars(self) -> str:
        return f" @{self.symbol}"

    def serial_ns(self, rates: Rates) -> float:
        return sum([u.slice.size_bytes for u in self.uses()]) * rates.routine_byte_ns

    def parts(self) -> int:
        """Into how many it can be cut for threads."""
        return 1

    def elapsed_ns(self, rates: Rates, units: int) -> float:
        return self.serial_ns(rates) / max(1, min(units, self.parts()))
