"""What the functions of a C library share: its weights, each different one once.

Constants of all functions are laid one behind another, where 64 bytes begin; equal ones are one.
They stand in an object of the library, or in a file that is mapped when the library is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from hloom.program.slice import ALIGNMENT

if TYPE_CHECKING:
    from hloom.program.c_tensors import Tensors

SHARED_BYTES = 1 << 20
"""Constants of one function from here on are an object of their own: less text for LLVM."""

Place = Literal["inside", "section", "file", "either"]


@dataclass
class Weights:
    """A growing table of constants."""

    place: Place
    """`inside`: of the code of each function; `section`: one for all; `file`: mapped; `either` of
    the first two, as the first function has many bytes or few."""
    gap_bytes: int = 0
    """Before each, for what a file says of it."""
    size_bytes: int = 0
    items: list[tuple[int, bytes | memoryview]] = field(default_factory=list)
    """Where each begins, and its bytes."""
    _offsets: dict[bytes, int] = field(default_factory=dict)

    def offset(self, data: bytes | memoryview) -> int:
        """Where these bytes stand; they are added if they are new."""
        key = hashlib.sha256(data).digest()
        if key not in self._offsets:
            begin = -(-self.size_bytes // ALIGNMENT) * ALIGNMENT + self.gap_bytes
            self._offsets[key] = begin
            self.items.append((begin, data))
            self.size_bytes = begin + len(data)
        return self._offsets[key]


@dataclass(frozen=True)
class LibraryRequest:
    """A function that is asked for."""

    name: str
    library: str
    """The name of the library, which what functions share is called by."""
    weights: Weights
    pool: Literal["", "caller", "own"] = ""
    """Whose threads may run parts of a step; empty: the thread that calls runs all."""
    is_version: bool = False
    """Whether it is for one kind of processor among several: no one else sees it, and whoever calls
    has asked the processor."""
    named: Mapping[int, str] = field(default_factory=dict)
    """Inputs that are weights by name (c_tensors.py), which no caller brings."""
    tensors: Tensors | None = None
    """The table that they are in."""
