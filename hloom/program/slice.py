"""Places in memory: allocations, slices of them, and how many bytes an array takes.

An array takes one item per element of at least one byte: types narrower than a byte are not
packed, as numpy holds them. An array with a dynamic dimension is followed by one s32 for each of
its dimensions, at the next multiple of four bytes: its actual size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Final, Literal

from hloom.base.diagnostics import HloError
from hloom.types.shape import Shape

Index = tuple[int, ...]
Kind = Literal["parameter", "constant", "output", "temp"]

ALIGNMENT: Final = 64
"""Of allocations, and of every slice of the temp block, in bytes."""
STREAMED_BYTES: Final = 1 << 24
"""From this size on an array may be written past the caches, which needs its full alignment."""
SIZE_SLOT_BYTES: Final = 4
"""Of the s32 that holds the actual size of one dimension."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """One block of memory that a run of the program uses.

    * `parameter`: the caller's buffer of `parameter_number` at `shape_index`. Nobody writes to it
      unless `is_donated`; the output at `output_index`, if not None, is returned in it.
    * `constant`: read only, its bytes are `data`, used where they stand.
    * `output`: a fresh buffer handed to the caller as the part of the result at `shape_index`.
    * `temp`: the arena of everything else; one, if any. Under guard every buffer has its own.
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


def data_bytes(shape: Shape) -> int:
    """Bytes of the elements of an array, bounds counting as sizes; 0 for tokens and opaques.

    Raises `HloError` for a dimension without a bound: nothing can be reserved for it.
    """
    if shape.is_buffer:
        shape = shape.elements[0]
    if not shape.is_array:
        return 0
    if shape.is_unbounded:
        raise HloError(
            f"{shape.text} has a dimension without a bound, so no place in memory",
            rule="unbounded",
            hint="give every dynamic dimension a bound (f32[<=8])",
        )
    return prod(shape.dims) * max(shape.dtype.size_bytes, 1)


def size_bytes(shape: Shape) -> int:
    """Bytes of an array with the sizes of its dimensions where any is dynamic."""
    if shape.is_buffer:
        shape = shape.elements[0]
    if not shape.dynamic:
        return data_bytes(shape)
    return dynamic_size_offset(shape, shape.rank)


def dynamic_size_offset(shape: Shape, dimension: int) -> int:
    """Where, from the start of an array, the s32 with the actual size of a dimension stands."""
    padded = -(-data_bytes(shape) // SIZE_SLOT_BYTES) * SIZE_SLOT_BYTES
    return padded + SIZE_SLOT_BYTES * dimension
