"""In which types the operands of a product are packed, and how many elements of K at a time.

Operands of bf16 or of 8-bit integers, summed in f32 or s32, need not be widened first where the
device has instructions that multiply them as they are (`Compute.dot_products`). Those for integers
may take one operand as unsigned: 128 is added to it when it is packed, and 128 times the sums of
the other's columns are taken off.
"""

from __future__ import annotations

from typing import NamedTuple

from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import RESHAPES
from hloom.types.dtype import DType, dtype

BIAS = 128


class Packing(NamedTuple):
    """Types in which both operands are packed (None: that of the sums), how many neighbours along K
    are multiplied by one instruction, and whether A is signed and has to be made unsigned."""

    a: DType | None = None
    b: DType | None = None
    group: int = 1
    biased: bool = False
    tile_depth: int = 0
    """Elements of K that the device multiplies at once, where it multiplies whole tiles."""
    parts: int = 1
    """Numbers of the packed type of which each element of A is the sum, digits behind digits."""

    @property
    def step(self) -> int:
        """Elements of K that are multiplied by one instruction; what is packed is filled up to a
        multiple."""
        return self.tile_depth or self.group

    @property
    def a_read(self) -> DType | None:
        """The type in which A is read."""
        return self.b if self.biased else self.a


WIDE = Packing()
"""Operands in the type of the sums, one element of K at a time."""


TILE_LINES = 16
"""Rows and columns of a tile. With fewer columns, and a K that does not fill half of one, vectors
are faster."""
MOVES = opcodes(RESHAPES, also=("transpose",))
"""What an operand may be moved by between its conversion and the product."""
PARTS_OF_F32 = 3
"""Of bf16, with 8 digits each, that have the 24 digits of f32."""
FEWEST_ROWS, FEWEST_NARROW_ROWS = 7, 4
"""With fewer rows B is read where it stands, by vectors: as fast as it comes from memory."""


def packing_of(
    a: Instruction,
    b: Instruction,
    sums: DType,
    leaves: set[Instruction],
    device: Device | None,
    sizes: tuple[int, int, int] = (0, 0, 0),
    splits: bool = False,
) -> Packing:
    """How operands are packed for the device's instructions, if there is one for types that hold
    what they are computed from exactly. `sizes`: rows, columns and K; whole tiles are for products
    that fill some. `splits`: whether A may be several numbers of a narrow type for each of its
    own, whose products and sums are as exact."""
    if device is None:
        return WIDE
    # Of fewer rows as much time goes into putting together the pairs of what was moved.
    is_moved = sizes[0] > 2 * TILE_LINES
    left, right = [exact_type(x, leaves, is_moved) for x in (a, b)]
    for first, second, depth in device.compute.matrix_tiles:
        types, (rows, columns, k) = (dtype(first), dtype(second)), sizes
        if sums.name != ("f32" if types[0].is_floating else "s32"):
            continue
        fewest = FEWEST_NARROW_ROWS if types[0].size_bytes == 1 else FEWEST_ROWS
        if rows < fewest or columns < TILE_LINES or 2 * k < depth:
            continue
        if holds(types[0], left) and holds(types[1], right):
            return Packing(*types, 4 // types[0].size_bytes, tile_depth=depth)
        if splits and left.name == "f32" and types[0].name == "bf16" and holds(types[1], right):
            return Packing(*types, 2, tile_depth=depth, parts=PARTS_OF_F32)
    for first, second, group in device.compute.dot_products:
        types = dtype(first), dtype(second)
        wide_name = "f32" if types[0].is_floating else "s32"
        if sums.name != wide_name or not holds(types[1], right):
            continue
        if holds(types[0], left):
            return Packing(*types, group)
        if first == "u8" and holds(types[1], left):
            return Packing(*types, group, biased=True)
    return WIDE


def exact_source(x: Instruction, leaves: set[Instruction]) -> Instruction:
    """What an operand is a widening conversion of, where a kernel does that itself."""
    while x not in leaves and x.opcode == "convert" and holds(x.shape.dtype, source_type(x)):
        x = x.operands[0]
    return x


def exact_type(x: Instruction, leaves: set[Instruction], is_moved: bool) -> DType:
    """The narrowest type that is known to have all numbers of an operand: what it is widened from;
    `is_moved`: wherever its elements are moved since."""
    narrowest = x.shape.dtype
    while x not in leaves:
        if x.opcode == "convert" and holds(x.shape.dtype, source_type(x)):
            narrowest = source_type(x)
        elif not is_moved or x.opcode not in MOVES or len(x.operands) != 1:
            break
        x = x.operands[0]
    return narrowest


def source_type(x: Instruction) -> DType:
    """The type that is converted from."""
    return x.operands[0].shape.dtype


def holds(wide: DType, narrow: DType) -> bool:
    """Whether a type has every number of another one (of integers and floats; subnormal numbers of
    more than 8 bits aside)."""
    if wide is narrow:
        return True
    if wide.is_pred or narrow.is_pred or wide.is_complex or narrow.is_complex:
        return False
    if wide.is_floating and narrow.is_floating:
        if narrow.name == "f8e8m0fnu" or wide.bits <= 8:
            return False
        digits = wide.mantissa_bits >= narrow.mantissa_bits
        return digits and wide.exponent_bits >= narrow.exponent_bits
    if wide.is_floating:
        return narrow.is_integral and narrow.bits - narrow.is_signed_int <= wide.mantissa_bits + 1
    if narrow.is_floating:
        return False
    if narrow.is_unsigned_int:
        return wide.bits - wide.is_signed_int >= narrow.bits
    return wide.is_signed_int and wide.bits >= narrow.bits
