"""How many bytes values take: the one place that turns a shape into bytes of memory.

In memory an array takes one item per element of at least one byte, as numpy holds them, unless its
layout says that elements of 2 or 4 bits are packed (`E(4)`: two in a byte, the first in the lowest
bits). `Shape.size_bytes` counts those packed whatever layouts say, as files and messages hold them.
An array with a dynamic dimension is followed by one s32 for each of its dimensions, at the
next multiple of four bytes: its actual size.
"""

from __future__ import annotations

from math import prod
from typing import Final

from hloom.base.diagnostics import HloError
from hloom.types.dtype import DType
from hloom.types.layout import default_layout
from hloom.types.shape import UNBOUNDED, Shape, tuple_shape

PACKED_BITS: Final = frozenset((2, 4))
"""Of elements that share bytes where layouts say so. Those of one bit have a byte each, as `pred`:
programs from JAX and StableHLO cannot tell the two apart."""
ALIGNMENT: Final = 64
"""Of allocations and constants, in bytes: a vector of any processor lies in one line of a cache."""
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
    bits = packed_bits(shape)
    return (prod(shape.dims) * bits + 7) // 8 if bits else unpacked_bytes(shape)


def unpacked_bytes(shape: Shape) -> int:
    """Bytes of the elements of an array of numpy's, in which nothing is packed."""
    return prod(shape.dims) * max(shape.dtype.size_bytes, 1)


# No memory holds more elements, and filling up bytes makes no more of them than 64 bits count.
MOST_PACKED = 1 << 60


def can_pack(element_type: DType) -> bool:
    """Whether several elements of a type fill a byte."""
    return element_type.bits in PACKED_BITS


def packed_bits(shape: Shape) -> int:
    """From one element to the next in memory where a layout says that several share a byte; 0 for
    all other arrays. What a layout says of elements that cannot be packed so changes nothing."""
    layout = shape.layout
    if layout is None or not layout.element_size_in_bits:
        return 0
    bits = shape.dtype.bits
    return bits if can_pack(shape.dtype) and layout.element_size_in_bits == bits else 0


def packed_form(shape: Shape) -> Shape:
    """The shape as programs for CPUs take and give it: arrays whose elements can be packed say that
    they are, unless their size is of run time or beyond every memory; layouts say nothing about
    the elements of others."""
    if shape.is_tuple:
        parts = [packed_form(part) for part in shape.elements]
        same = all(a is b for a, b in zip(parts, shape.elements))
        return shape if same else tuple_shape(parts)
    if not shape.is_array:
        return shape
    packs = can_pack(shape.dtype) and shape.is_static and prod(shape.dims) <= MOST_PACKED
    wanted = shape.dtype.bits if packs else 0
    stated = shape.layout.element_size_in_bits if shape.layout is not None else 0
    if stated == wanted:
        return shape
    layout = shape.layout or default_layout(shape.rank)
    return shape.with_layout(layout.replace(element_size_in_bits=wanted))


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
