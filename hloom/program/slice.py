"""Places in memory: allocations, and slices of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from hloom.types.sizes import ALIGNMENT as ALIGNMENT  # of every slice of the temp block, too

Index = tuple[int, ...]
Kind = Literal["parameter", "constant", "output", "temp"]

STREAMED_BYTES: Final = 1 << 24
"""From this size on an array may be written past the caches, which needs its full alignment; whose
caches are larger writes larger ones so."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """One block of memory that a run of the program uses.

    * `parameter`: the caller's buffer of `parameter_number` at `shape_index`. Nobody writes to it
      unless `is_donated`; the output at `output_index`, if not None, is returned in it.
    * `constant`: read only, its bytes are `data`, used where they stand.
    * `output`: a fresh buffer handed to the caller as the part of the result at `shape_index`.
    * `temp`: the arena of everything else; at most one for a memory space. Under guard every
      buffer has its own.
    """

    index: int
    size_bytes: int
    kind: Kind
    parameter_number: int | None = None
    shape_index: Index = ()
    output_index: Index | None = None
    is_donated: bool = False
    data: bytes | memoryview | None = field(default=None, hash=False)
    """A view where the program was read from a file, in which the bytes then stay."""
    space: int = 0
    """The memory space: `S(space)` in layouts."""

    @property
    def is_read_only(self) -> bool:
        return self.kind == "constant" or (self.kind == "parameter" and not self.is_donated)


@dataclass(frozen=True, slots=True)
class BufferSlice:
    """`size_bytes` bytes of an allocation from `offset` on."""

    allocation: Allocation
    offset: int
    size_bytes: int

    @property
    def end(self) -> int:
        return self.offset + self.size_bytes

    def overlaps(self, other: BufferSlice) -> bool:
        """Whether the two have a byte in common."""
        return (
            self.allocation.index == other.allocation.index
            and self.offset < other.end
            and other.offset < self.end
        )

    def __str__(self) -> str:
        return f"{self.allocation.index}[{self.offset}:{self.end}]"
