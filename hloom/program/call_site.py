"""A custom call as a program has it: whom to call, with what, and where that stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from hloom.program.slice import BufferSlice


class CallBuffer(NamedTuple):
    """An operand or result of a custom call; `slice` is None for a token, which has no bytes."""

    dtype: int
    """The number of the element type in the protobuf enum."""
    dims: tuple[int, ...]
    slice: BufferSlice | None


@dataclass(frozen=True)
class CallSite:
    """One custom call; the handler of its target is looked up when the program is loaded.

    Tuples among operands and results are taken apart, in order.
    """

    name: str
    target: str
    is_typed: bool
    """Whether `config` is a dictionary of typed attributes, or text handed over as it is."""
    config: str
    operands: tuple[CallBuffer, ...]
    results: tuple[CallBuffer, ...]
