"""Dots seen as products of matrices, whatever their operands look like.

A `Product` is `C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n]`, K given as digits (window and
features of a convolution, see `product_convolution.py`). It knows how to read elements of A and B
at any place, which is how prologues (converts, dequantisation, padding, im2col) cost nothing but a
little in packing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from hloom.analysis.panels import Panels, panels_behind
from hloom.codegen.affine import ZERO, Affine, linear
from hloom.codegen.byte_parts import byte_parts, splits_units
from hloom.codegen.elements import Elements, Index, is_simple, strides_of
from hloom.codegen.packing import BIAS, WIDE, Packing, exact_source, packing_of
from hloom.codegen.row_products import accumulator_type
from hloom.codegen.work import reading_ns
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value
from hloom.types.dtype import DType

if TYPE_CHECKING:
    from hloom.codegen.gemm_tiling import GemmTiling
    from hloom.codegen.window_rows import WindowRows

# Reads an element: (elements, batch, m or n, digits of k).
Read = Callable[[Elements, Affine, Affine, Sequence[Affine]], Value]
# Where a row of A stands in memory: buffer, offset of its first element, strides of rows and of K.
Direct = Callable[[Elements, Affine, Affine], tuple[Value, Affine, int, int]]

# Whether a row of A has more than zeros at first digits of K: (elements, m, digits); None: yes.
Touches = Callable[[Elements, Affine, Sequence[Affine]], Value | None]


class Inside(NamedTuple):
    """Rows of A that are read without asking for padding."""

    holds: Touches
    """Whether a row sees none behind the first digits of K; None: it never does."""
    read: Read


# A result with no more columns than this (and more rows) is computed transposed: then what is
# read most is read in vectors, where it stands.
FEW_COLUMNS = 6
# So does one whose K is as many times longer than its rows and columns, if more lanes are filled.
DEEP = 4


@dataclass
class Product:
    """A product of matrices; `depths` are the sizes of the digits of K, slowest first.

    The rows are `row_groups * rows`; tiles of rows stay within a group. `a_lanes` and `b_lanes`
    say along what the memory of an operand runs: 'k', 'm' or 'n'; the last `a_merged` digits of K
    are contiguous in A together. `direct_a` says where rows of A stand if they can be read without
    packing. `packing` says in which types the operands are read.
    """

    anchor: Instruction
    of: DType
    batch: int
    rows: int
    columns: int
    depths: tuple[int, ...]
    a: Read
    b: Read
    index: Callable[[Elements, Affine, Affine, Affine], Index]
    a_lanes: str
    b_lanes: str
    direct_a: Direct | None = None
    b_parts: int = 1
    """How many neighbours along what the memory of B runs are in a byte of it."""
    a_merged: int = 1
    row_groups: int = 1
    packing: Packing = WIDE
    b_array: Instruction | None = None
    """What B is read from, if each of its elements is one of this array..."""
    b_dims: tuple[int, ...] = ()
    """... and the dimensions of it that are the digits of K, in their order, and the columns."""
    b_panels: Panels | None = None
    """Panels that B lies in already."""
    window: WindowRows | None = None
    """How rows of A are read from an image, where a window's places need not be packed."""
    touches: Touches | None = None
    """Whether a row has more than padding at the first digits of K, where much is padding."""
    inside: Inside | None = None
    """How rows of A are read at which no padding is seen, where some is."""
    reading_ns: float = 0.0
    """What one core takes to read and compute each element of both operands once, where known."""
    tiling: GemmTiling | None = None
    """How it is cut, where that has been chosen; None: as the device's costs say."""

    @property
    def a_type(self) -> DType:
        """The type of what is read and packed of A."""
        return self.packing.a or self.of

    @property
    def b_type(self) -> DType:
        """The type of what is read and packed of B."""
        return self.packing.b or self.of

    def packed_a(self, e: Elements, batch: Affine, m: Affine, k: Sequence[Affine]) -> Value:
        """An element of A as it is packed."""
        return self.packed(e, self.a(e, batch, m, k))

    def packed(self, e: Elements, x: Value) -> Value:
        """What was read of A, as it is packed."""
        b = e.builder
        if not self.packing.biased:
            return x
        top = b.constant(x.dtype, -BIAS, x.shape)
        return b.bitcast_convert(b.binary("xor", x, top), self.a_type)

    @property
    def element_bytes(self) -> int:
        """The bytes of an element that is packed."""
        return max(self.b_type.size_bytes, 1)

    @property
    def depth(self) -> int:
        return prod(self.depths)

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.row_groups * self.rows * self.columns * self.depth


def dot_product(
    i: Instruction,
    leaves: set[Instruction],
    swapped: bool | None = None,
    device: Device | None = None,
    splits: bool = False,
) -> Product:
    """A canonical dot as a product of matrices; `swapped` says whether its second operand has the
    rows, None leaves the choice to what is fast. Where the device is given, its instructions for
    narrow types are used."""
    a = i.attrs
    lhs, rhs = i.operands
    batches = [lhs.shape.dims[d] for d in a.lhs_batch_dims]
    left = _Side.of(lhs, a.lhs_batch_dims, a.lhs_contracting_dims)
    right = _Side.of(rhs, a.rhs_batch_dims, a.rhs_contracting_dims)
    of = accumulator_type(i.shape.dtype)
    assert i.shape.rank == len(batches) + 2
    group = packing_of(lhs, rhs, of, leaves, device).group
    if group > 1:
        left.array, right.array = exact_source(lhs, leaves), exact_source(rhs, leaves)
    if swapped is None:
        vector_bytes = device.compute.vector_bytes if device else of.size_bytes
        lanes = max(vector_bytes // max(of.size_bytes, 1), 1)
        swapped = _is_better_swapped(left, right, leaves, group, lanes)
    if swapped:
        left, right = right, left
    depth = lhs.shape.dims[a.lhs_contracting_dims[0]]
    sizes = (left.size, right.size, depth)
    packing = packing_of(left.array, right.array, of, leaves, device, sizes, splits)
    panels = right.panels(leaves, packing.group, packing.b or of)
    if panels and depth % packing.step:  # there are no zeros behind them
        packing = packing_of(left.array, right.array, of, leaves, device)
    digits = _contracted_digits((left, right), packing.group, leaves)

    def index(e: Elements, b: Affine, m: Affine, n: Affine) -> Index:
        return (*e.indices.digits(b, batches), *((n, m) if swapped else (m, n)))

    return Product(
        i,
        of,
        prod(batches),
        left.size,
        right.size,
        digits,
        left.reader(batches, digits, packing.a_read or of),
        right.reader(batches, digits, packing.b or of),
        index,
        left.lanes(leaves, "m"),
        "n" if panels else right.lanes(leaves, "n"),
        left.direct(batches, packing, of) if left.array in leaves else None,
        1 if panels else right.parts(leaves),
        packing=packing,
        b_array=right.array if not batches else None,
        b_dims=(right.contracted, right.free),
        b_panels=panels,
        reading_ns=reading_ns((left.array, right.array), leaves, device) if device else 0.0,
    )


def _is_better_swapped(
    left: _Side, right: _Side, leaves: set[Instruction], group: int, lanes: int
) -> bool:
    """Whether a product is faster with its second operand's elements as rows."""
    if left.panels(leaves, group, left.array.shape.dtype):
        return True
    if right.panels(leaves, group, right.array.shape.dtype):
        return False
    if right.size <= FEW_COLUMNS:
        return left.size > right.size
    depth = left.array.shape.dims[left.contracted]
    if depth < DEEP * max(left.size, right.size):
        return False
    if left.lanes(leaves, "m") == "k" or right.lanes(leaves, "n") == "k":
        return False

    def filled(columns: int) -> float:
        return columns / (-(-columns // lanes) * lanes)

    # What is stored is little, so only the lanes count that would be empty.
    return filled(left.size) > 1.2 * filled(right.size)


@dataclass
class _Side:
    """One operand of a dot: an array, and what its dimensions are."""

    array: Instruction
    batches: tuple[int, ...]
    free: int
    contracted: int

    @staticmethod
    def of(array: Instruction, batches: tuple[int, ...], contracted: tuple[int, ...]) -> _Side:
        [free] = _free(array, batches, contracted)
        return _Side(array, batches, free, contracted[0])

    @property
    def size(self) -> int:
        return self.array.shape.dims[self.free]

    def at(self, e: Elements, sizes: list[int], b: Affine, f: Affine, k: Affine) -> Index:
        """The index of an element."""
        index = [ZERO] * self.array.shape.rank
        for d, digit in zip(self.batches, e.indices.digits(b, sizes)):
            index[d] = digit
        index[self.free], index[self.contracted] = f, k
        return tuple(index)

    def reader(self, sizes: list[int], digits: tuple[int, ...], of: DType) -> Read:
        """Reads elements at digits of K, as a type."""
        strides = [prod(digits[n + 1 :]) for n in range(len(digits))]

        def read(e: Elements, b: Affine, f: Affine, k: Sequence[Affine]) -> Value:
            at = self.at(e, sizes, b, f, linear(k, strides))
            return e.builder.convert(e.value(self.array, at), of)

        return read

    def panels(self, leaves: set[Instruction], group: int, of: DType) -> Panels | None:
        """The panels of this type that the operand lies in, as B."""
        if self.batches:
            return None
        return panels_behind(self.array, leaves, (self.contracted, self.free), group, of)

    def lanes(self, leaves: set[Instruction], free: str) -> str:
        """Along what the memory runs: `free` or 'k'."""
        if self.array.shape.dims[self.contracted] == 1 and free == "m":
            return "k"
        if self.size == 1:
            return "k"
        return free if fastest(self.array, leaves) == self.free else "k"

    def parts(self, leaves: set[Instruction]) -> int:
        """How many neighbours along what the memory runs are in a byte of it."""
        along = self.contracted if self.lanes(leaves, "n") == "k" else self.free
        parts = byte_parts(self.array, along, leaves)
        return parts if self.array.shape.dims[along] % parts == 0 else 1

    def direct(self, sizes: list[int], packing: Packing, of: DType) -> Direct | None:
        """How rows are read where they stand; None if they must be packed."""
        strides = strides_of(self.array.shape)
        if self.array.shape.dtype is not (packing.a or of) or of.is_complex:
            return None
        depth, group = self.array.shape.dims[self.contracted], packing.group
        if depth % packing.step:
            return None
        if group > 1 and (strides[self.contracted] != 1 or depth == group):
            return None
        if strides[self.contracted] != 1 and strides[self.free] != 1:
            return None

        def direct(e: Elements, b: Affine, m: Affine) -> tuple[Value, Affine, int, int]:
            offset = linear(self.at(e, sizes, b, m, ZERO), strides)
            return (
                e.sources[self.array].buffer,
                offset,
                strides[self.free],
                strides[self.contracted],
            )

        return direct


def _contracted_digits(
    sides: tuple[_Side, _Side], group: int, leaves: set[Instruction]
) -> tuple[int, ...]:
    """The digits of K: several where one operand's memory has jumps between them, so that each is
    read in runs along the last one; whole groups of neighbours are within it."""
    for side in sides:
        digits = joined_dims(side.array, side.contracted, leaves)
        if len(digits) > 1 and digits[-1] % group == 0:
            return digits
    return (sides[0].array.shape.dims[sides[0].contracted],)


def joined_dims(x: Instruction, d: int, leaves: set[Instruction]) -> tuple[int, ...]:
    """The sizes of what a reshape of a transpose joins in dimension `d`, if the last one is next to
    itself in memory but the others are not next to it; else the size of `d`."""
    size, joined = x.shape.dims[d], 1
    while x not in leaves and (is_simple(x) or x.opcode == "transpose"):
        d = x.attrs.dimensions[d] if x.opcode == "transpose" else d
        x = max(x.operands, key=lambda y: y.shape.size if y.shape.is_array else 0)
    if x in leaves or x.opcode not in ("reshape", "bitcast"):
        return (size,)
    before, dims = prod(x.shape.dims[:d]), x.operands[0].shape.dims
    first = next((n for n in range(len(dims)) if prod(dims[:n]) == before and dims[n] > 1), None)
    if first is None:
        return (size,)
    end = first
    while end < len(dims) and joined < size:
        joined, end = joined * dims[end], end + 1
    digits = tuple([n for n in dims[first:end] if n > 1])
    inner = x.operands[0]
    if joined != size or len(digits) < 2 or inner in leaves:
        return (size,)
    last = max([n for n in range(first, end) if dims[n] > 1])
    if fastest(inner, leaves) != last:
        return (size,)
    if splits_units(inner) and last == inner.shape.rank - 1:  # bytes follow each other
        digits = (*digits[:-2], digits[-2] * digits[-1])
    return digits


def is_canonical_dot(i: Instruction) -> bool:
    """Whether a dot has the form `dot_product` takes: one free and one contracted dimension."""
    a = i.attrs
    lhs, rhs = i.operands
    return (
        len(a.lhs_contracting_dims) == 1
        and len(_free(lhs, a.lhs_batch_dims, a.lhs_contracting_dims)) == 1
        and len(_free(rhs, a.rhs_batch_dims, a.rhs_contracting_dims)) == 1
    )


def _free(x: Instruction, batch: tuple[int, ...], contracted: tuple[int, ...]) -> list[int]:
    return [d for d in range(x.shape.rank) if d not in (*batch, *contracted)]


def fastest(x: Instruction, leaves: set[Instruction]) -> int:
    """The dimension along which the memory behind a value runs: that of its largest leaf, seen
    through elementwise operations and transposes."""
    dims = list(range(x.shape.rank))
    while x not in leaves:
        if x.opcode == "transpose":
            # Dimension d of the result is dimension dimensions[d] of the operand.
            order = x.attrs.dimensions
            dims = [order[d] for d in dims]
        elif not is_simple(x) and x.opcode not in ("copy", "reverse", "slice", "pad"):
            break
        x = max(x.operands, key=lambda y: y.shape.size if y.shape.is_array else 0)
    strides = strides_of(x.shape)
    sizes = x.shape.dims
    solid = [d for d in range(len(dims)) if sizes[dims[d]] != 1]
    return min(solid, key=lambda d: strides[dims[d]]) if solid else -1
