"""A step of a program, which says what memory it reads and writes.

Order and concurrency follow from the uses alone: two thunks may run at once when neither
writes what the other uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from hloom.program.slice import BufferSlice


class Use(NamedTuple):
    """Memory that a thunk touches."""

    slice: BufferSlice
    writes: bool


class Nested(NamedTuple):
    """A sequence inside a thunk, such as the body of a loop."""

    name: str
    thunks: tuple[Thunk, ...]


@dataclass(frozen=True, eq=False)
class Thunk:
    """One step; `name` is that of the instruction it came from."""

    kind: ClassVar[str] = "Thunk"
    name: str

    def uses(self) -> tuple[Use, ...]:
        """The memory it reads and writes itself; not that of nested sequences."""
        return ()

    def nested(self) -> tuple[Nested, ...]:
        """Sequences it runs, each with a name."""
        return ()


def walk(thunks: tuple[Thunk, ...]) -> Iterator[Thunk]:
    """Every thunk, those of nested sequences after the one that holds them."""
    for t in thunks:
        yield t
        for part in t.nested():
            yield from walk(part.thunks)


def all_uses(thunk: Thunk) -> list[Use]:
    """What a thunk and all inside it touch."""
    found = list(thunk.uses())
    for part in thunk.nested():
        for t in part.thunks:
            found += all_uses(t)
    return found
