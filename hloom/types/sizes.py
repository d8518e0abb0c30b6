"""How many bytes values take: the one place that turns a shape into bytes of memory.

In memory an array takes one item per element of at least one byte: types narrower than a byte are
not packed, as numpy holds them (`Shape.size_bytes` counts them packed, as files and messages hold
them). An array with a dynamic dimension is followed by one s32 for each of its dimensions, at the
next multiple of four bytes: its actual size.
"""

from __future__ import annotations

from math import prod
from typing import Final

from hloom.base.diagnostics import HloError
from hloom.types.shape import UNBOUNDED, Shape

SIZE_SLOT_BYTES: Final = 4
"""Of the s32 that holds the actual size of one dimension."""


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


def moved_bytes(shape: Shape) -> int:
    """Bytes of all elements of a value, packed; a size without a bound counts as 1."""
    if not shape.is_unbounded:
        return shape.size_bytes
    return sum(element_count(leaf) * max(1, leaf.dtype.bits // 8) for leaf in shape.leaves())


def element_count(shape: Shape) -> int:
    """Elements of an array, or of all arrays in a tuple; a size without a bound counts as 1."""
    return sum(
        prod(1 if n == UNBOUNDED else n for n in leaf.dims)
        for leaf in shape.leaves()
        if leaf.is_array
    )


def top_bytes(shape: Shape) -> int:
    """Bytes in memory of an array; of all arrays directly in a tuple. 0 for what has none."""
    if shape.is_tuple:
        return sum(data_bytes(s) for s in shape.elements if s.is_array)
    return data_bytes(shape) if shape.is_array else 0
