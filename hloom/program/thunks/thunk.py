"""A step of a program, which says what memory it reads and writes.

Order and concurrency follow from the uses (and the states shared) alone: two thunks may run at once
when neither writes what the other uses.

A kind is one class in one file of this folder, which `@thunk_kind` registers by its name. All
that is known of it stands there: fields, uses, states, text, cost; its saved form follows from the
types of its fields (saved_thunks.py). Who runs it registers for the class: `EMITS` of
codegen/llvm/main_function.py, `STEPS` of runtime/debug_steps.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, TypeVar

from hloom.base.registry import Registry
from hloom.program.slice import BufferSlice

THUNKS: Registry[str, type[Thunk]] = Registry("kind of thunk")
"""Every kind by its name, which listings show and saved programs hold."""


class Use(NamedTuple):
    """Memory that a thunk touches."""

    slice: BufferSlice
    writes: bool


class Nested(NamedTuple):
    """A sequence inside a thunk, such as the body of a loop."""

    name: str
    thunks: tuple[Thunk, ...]


class Rates(Protocol):
    """What a thunk's time is guessed from: `Costs` of a device has it."""

    @property
    def copy_byte_ns(self) -> float: ...
    @property
    def routine_byte_ns(self) -> float: ...
    @property
    def fft_byte_ns(self) -> float: ...
    @property
    def sort_byte_ns(self) -> float: ...
    @property
    def fft_detour(self) -> float: ...
    @property
    def sort_element_bytes(self) -> float: ...
    @property
    def sort_row_bytes(self) -> float: ...
    @property
    def kept_elements(self) -> float: ...
    @property
    def compare_ns(self) -> float: ...
    @property
    def select_ns(self) -> float: ...
    @property
    def multiply_add_ns(self) -> float: ...
    @property
    def matrix_element_ns(self) -> float: ...
    @property
    def foreign_ns(self) -> float: ...
    def grain(self, steps: int, one_ns: float, units: int) -> int: ...


@dataclass(frozen=True, eq=False)
class Thunk(ABC):
    """One step; `name` is that of the instruction it came from."""

    kind: ClassVar[str]
    """Its name, as listings and saved programs have it."""
    meets_others: ClassVar[bool] = False
    """Whether what it does has to do with the other devices."""
    is_interpreted: ClassVar[bool] = False
    """Whether no code was written for it, and the interpreter does it."""
    name: str

    @abstractmethod
    def uses(self) -> tuple[Use, ...]:
        """The memory it reads and writes itself; not that of nested sequences."""

    @abstractmethod
    def particulars(self) -> str:
        """What listings say of it behind its name, with the separator before it; may be empty."""

    @abstractmethod
    def serial_ns(self, rates: Rates) -> float:
        """A guess of its time on one thread, nested sequences included; infinite where it runs as
        long as it likes."""

    def states(self) -> tuple[str, ...]:
        """What it changes beside memory; thunks that have one in common keep their order."""
        return ()

    def nested(self) -> tuple[Nested, ...]:
        """Sequences it runs, each with a name."""
        return ()

    def with_nested(self, parts: Sequence[tuple[Thunk, ...]]) -> Thunk:
        """The same with other sequences, as many as `nested` gives."""
        assert not parts
        return self

    def elapsed_ns(self, rates: Rates, units: int) -> float:
        """A guess of its time where so many threads may work on it; finite."""
        return self.serial_ns(rates)


T = TypeVar("T", bound=type[Thunk])


def thunk_kind(cls: T) -> T:
    """Registers a kind of thunk."""
    THUNKS.add(cls.kind, cls)
    return cls


def walk(thunks: Iterable[Thunk]) -> Iterator[Thunk]:
    """Every thunk, those of nested sequences after the one that holds them."""
    for t in thunks:
        yield t
        for part in t.nested():
            yield from walk(part.thunks)


def all_uses(thunk: Thunk) -> list[Use]:
    """What a thunk and all inside it touch."""
    return [use for t in walk((thunk,)) for use in t.uses()]


def all_states(thunk: Thunk) -> set[str]:
    """What a thunk and all inside it change beside memory."""
    return {state for t in walk((thunk,)) for state in t.states()}


def sequence_ns(thunks: Iterable[Thunk], rates: Rates) -> float:
    """A guess of the time of thunks one after another on one thread."""
    return sum([t.serial_ns(rates) for t in thunks])


def sequence_elapsed_ns(thunks: Iterable[Thunk], rates: Rates, units: int) -> float:
    """A guess of the time of thunks one after another, so many threads at work on each."""
    return sum([t.elapsed_ns(rates, units) for t in thunks])
