"""What devices that run one program do together.

A collective is described to the runtime (native/communicator.h) by numbers that are the same on all
devices: who meets, how the arrays are cut, which compiled functions fold them. Its two halves are
thunks of their own: from start to done the operands and results belong to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from hloom.program.slice import BufferSlice
from hloom.program.thunks.among_devices import AmongDevices
from hloom.program.thunks.routine import Addresses, Argument, Function, Numbers, Text
from hloom.program.thunks.thunk import Use, thunk_kind

EXCHANGES: tuple[str, ...] = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "all-to-all-tuple",
    "permute",
    "permute-slices",
    "broadcast",
    "reduce",
    "ragged-all-to-all",
    "barrier",
)
"""What is exchanged, by the number that the runtime knows it by."""


class Rows(NamedTuple):
    """How often, and in how many bytes, an array is cut."""

    outer: int
    chunk: int


class Fold(NamedTuple):
    """A compiled function that folds an array of a group of so many members.

    `parameters`: a member whose operand it reads (k), or whose result it writes (-1 - k). Each step
    but the last is of the next `step_bytes` of the array; 0: it is not known what a step is of.
    """

    array: int
    members: int
    steps: int
    cost_ns: float
    symbol: str
    parameters: tuple[int, ...]
    step_bytes: int = 0


class Operation(NamedTuple):
    """What a collective does; `number` tells those of one program apart.

    `groups` are of devices, in group order. `arrays`: rows, and bytes of one, the unit that moves
    as a whole. `numbers` are what a kind has of its own (native/communicator_moves.cc).
    """

    number: int
    exchange: str
    groups: tuple[tuple[int, ...], ...]
    arrays: tuple[Rows, ...]
    folds: tuple[Fold, ...] = ()
    numbers: tuple[int, ...] = ()

    @property
    def pairs(self) -> tuple[int, ...]:
        """The source and target devices of a permute, one pair after another."""
        if self.exchange == "permute":
            return self.numbers
        at = 1
        for _ in range(self.numbers[0]):
            at += 6 + 3 * self.numbers[at + 5]
        return self.numbers[at:]

    def words(self, operands: int, results: int) -> tuple[int, ...]:
        """As the runtime reads it; the symbols of folds stand with the pointers."""
        words_ = [self.number, EXCHANGES.index(self.exchange), operands, results]
        words_.append(len(self.groups))
        for group in self.groups:
            words_ += [len(group), *group]
        words_.append(len(self.arrays))
        for rows in self.arrays:
            words_ += rows
        words_.append(len(self.folds))
        for f in self.folds:
            words_ += [f.array, f.members, f.steps, f.step_bytes]
            words_ += [len(f.parameters), *f.parameters]
        return (*words_, len(self.numbers), *self.numbers)


@dataclass(frozen=True, eq=False)
class _Collective(AmongDevices):
    """What a collective and its halves have in common."""

    operation: Operation
    operands: tuple[BufferSlice, ...]
    results: tuple[BufferSlice, ...]

    @property
    def words(self) -> Numbers:
        """The operation as the runtime reads it."""
        return Numbers(self.operation.words(len(self.operands), len(self.results)))

    @property
    def arguments(self) -> tuple[Argument, ...]:
        folds = tuple([Function(f.symbol) for f in self.operation.folds])
        places = Addresses((*self.operands, *self.results, *folds))
        return (self.words, Text(self.name.encode()), places)

    def uses(self) -> tuple[Use, ...]:
        return (*[Use(s, False) for s in self.operands], *[Use(s, True) for s in self.results])

    def particulars(self) -> str:
        groups = ",".join(["{" + ",".join(map(str, g)) + "}" for g in self.operation.groups])
        return f" {self.operation.exchange} of {groups}"


@thunk_kind
@dataclass(frozen=True, eq=False)
class Collective(_Collective):
    """A collective from its beginning to its end."""

    kind = "Collective"
    symbol = "hl_collective"


@thunk_kind
@dataclass(frozen=True, eq=False)
class CollectiveStart(_Collective):
    """The first half of a collective: it puts the operands down and returns at once."""

    kind = "CollectiveStart"
    symbol = "hl_collective_start"


@thunk_kind
@dataclass(frozen=True, eq=False)
class CollectiveDone(_Collective):
    """The second half: it waits for the others, and does a part of the work."""

    kind = "CollectiveDone"
    symbol = "hl_collective_done"

    @property
    def arguments(self) -> tuple[Argument, ...]:
        return (self.words, Text(self.name.encode()))
