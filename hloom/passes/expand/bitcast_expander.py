"""Bitcasts from or to elements below a byte or in tiles, as what they do to elements.

Layouts say whether such elements are packed (`E(4)`) or take a byte each, and a bitcast reads one
as the other. Inside, compiled programs keep them in a byte each whatever layouts say, so what a
bitcast reads is not what lies there: it is written out instead. Elements in their order in memory
are cut or joined by bitcast-convert, the first in the lowest bits. In the same way no array lies
in tiles inside, whatever layouts say: a bitcast that reads tiles as others is the steps out of the
ones and into the others.
"""

from __future__ import annotations

from math import prod

from hloom.ir.instruction import Instruction
from hloom.ir.meaning import without_meaning
from hloom.ir.module import Module
from hloom.ir.values.padding import Padding
from hloom.passes.expand.expansion import Expander, ExpandError, Expansion, refuse
from hloom.passes.facts import fact
from hloom.passes.layout.dimension_orders import inverse
from hloom.passes.layout.tiled_bitcasts import mean_the_same
from hloom.passes.pass_ import register
from hloom.types.dtype import PRED, S8, U8, DType, dtype
from hloom.types.shape import Shape, shape
from hloom.types.sizes import packed_bits
from hloom.types.tiles import (
    is_tiled,
    physical_dimensions,
    physical_sizes,
    sizes_on_the_way,
    tiling_steps,
)

PACKED = frozenset((1, 2, 4))
"""Bits of the elements that can share a byte."""


def _stored_bits(s: Shape) -> int:
    """Bits from one element to the next: fewer than a byte only where the layout says so."""
    stated = s.layout.element_size_in_bits if s.layout is not None else 0
    return stated or 8 * s.dtype.size_bytes


def _unsigned(t: DType) -> DType:
    return dtype(f"u{t.bits}")


def _as_bits(b: Expansion, x: Instruction, t: DType) -> Instruction:
    """The bits of each element as those of a type of the same width."""
    if x.shape.dtype is t:
        return x
    return b.emit("bitcast-convert", x, shape=shape(t, x.shape.dims))


def _first_elements(b: Expansion, x: Instruction, count: int) -> Instruction:
    """The first elements of an array of one dimension."""
    return b.sliced(x, 0, 0, count)


def _stored(b: Expansion, x: Instruction, width: int) -> Instruction:
    """A flat array as unsigned integers of the width that its elements have in memory."""
    t = x.shape.dtype
    if t is PRED:
        return b.converted(x, U8)
    if t.bits == width:
        return _as_bits(b, x, _unsigned(t))
    if t.is_signed_int:  # kept sign-extended in its byte
        return _as_bits(b, b.converted(x, S8), U8)
    return b.converted(_as_bits(b, x, _unsigned(t)), U8)


def _loaded(b: Expansion, x: Instruction, t: DType) -> Instruction:
    """The elements of type `t` that unsigned integers hold in their low bits."""
    if t is PRED:
        return b.compared(x, b.full(0, x.shape.dtype, x.shape.dims), "NE")
    if t.bits < x.shape.dtype.bits:
        mask = b.full((1 << t.bits) - 1, x.shape.dtype, x.shape.dims)
        x = b.converted(b.and_(x, mask), _unsigned(t))
    return _as_bits(b, x, t)


def _recut(b: Expansion, x: Instruction, width: int, count: int) -> Instruction:
    """The first `count` integers of `width` bits in the bits of a flat array."""
    old = x.shape.dtype.bits
    if old < width:
        ratio = width // old
        rows = b.reshaped(_first_elements(b, x, count * ratio), (count, ratio))
        return b.emit("bitcast-convert", rows, shape=shape(dtype(f"u{width}"), (count,)))
    if old > width:
        ratio = old // width
        x = _first_elements(b, x, -(-count // ratio))
        cut = shape(dtype(f"u{width}"), (*x.shape.dims, ratio))
        x = b.emit("bitcast-convert", x, shape=cut)
        x = b.reshaped(x, (prod(x.shape.dims),))
    return _first_elements(b, x, count)


def _in_memory_order(b: Expansion, x: Instruction) -> Instruction:
    """The elements as they lie, and zeros where tiles are filled up, in one dimension."""
    s = x.shape
    x = b.transposed(x, physical_dimensions(s))
    for what, argument in tiling_steps(physical_sizes(s), s.layout):
        if what == "pad":
            ends = [(0, n - m) for n, m in zip(argument, x.shape.dims)]
            x = b.emit("pad", x, b.scalar(0, s.dtype), padding=Padding.of(*ends))
        else:
            x = b.reshaped(x, argument) if what == "split" else b.transposed(x, argument)
    return b.reshaped(x, (prod(x.shape.dims),))


def _from_memory_order(b: Expansion, x: Instruction, s: Shape) -> Instruction:
    """The array of a shape whose elements lie in this order."""
    sizes, order = physical_sizes(s), physical_dimensions(s)
    steps = tiling_steps(sizes, s.layout)
    forms = sizes_on_the_way(sizes, steps)
    x = b.reshaped(x, forms[-1])
    for (what, argument), before in zip(reversed(steps), reversed(forms[:-1])):
        if what == "pad":
            x = b.cut(x, [(0, n, 1) for n in before])
        else:
            x = b.reshaped(x, before) if what == "split" else b.transposed(x, inverse(argument))
    return b.transposed(x, inverse(order))


def _placed(s: Shape) -> int:
    """How many elements have a place in memory, with those that fill up tiles."""
    sizes = physical_sizes(s)
    return prod(sizes_on_the_way(sizes, tiling_steps(sizes, s.layout))[-1])


def _is_about_tiles(i: Instruction) -> bool:
    """Whether a bitcast reads elements that tiles put elsewhere."""
    before, after = i.operands[0].shape, i.shape
    if not (is_tiled(before) or is_tiled(after)) or before.is_dynamic or after.is_dynamic:
        return False
    return not mean_the_same(before, after)


def _is_below_a_byte(i: Instruction) -> bool:
    """Whether a bitcast reads packed elements as others, or in another number."""
    before, after = i.operands[0].shape, i.shape
    if PACKED.isdisjoint((before.dtype.bits, after.dtype.bits)):
        return False
    if before.is_dynamic or after.is_dynamic:
        return False
    if before.dtype is not after.dtype:
        return True
    return _is_recut(before, after)


def _is_recut(before: Shape, after: Shape) -> bool:
    """Whether as many bits are another number of elements."""
    return _stored_bits(before) != _stored_bits(after) and before.size != after.size


@fact
def bitcasts_of_bytes(module: Module) -> bool:
    """No bitcast is about tiles, or from or to elements below a byte, whose layouts say what they
    mean, but for those that name the bytes of packed arrays that callers hand in or are given."""
    return not any(
        i.opcode == "bitcast" and _reads_other_places(i) and not _names_bytes(i)
        for i in module.instructions()
    )


def _reads_other_places(i: Instruction) -> bool:
    return _is_below_a_byte(i) or _is_about_tiles(i)


def _names_bytes(i: Instruction) -> bool:
    """Whether a bitcast in the entry says only that a packed array is so many bytes, or is one."""
    before, after = i.operands[0].shape, i.shape
    if not i.parent.is_entry:
        return False
    read = packed_bits(before) > 0 and after.dtype is U8
    return read or (packed_bits(after) > 0 and before.dtype is U8)


@register
class BitcastExpander(Expander):
    """Write bitcasts of elements below a byte, or about tiles, as conversions and moves."""

    name = "bitcast-expander"
    gives = (bitcasts_of_bytes,)
    opcodes = frozenset(["bitcast"])

    def wants(self, i: Instruction) -> bool:
        return _reads_other_places(i)

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        x, after = i.operands[0], i.shape
        if (error := without_meaning(i)) is not None:
            raise error
        before, count = x.shape, _placed(after)
        elements = _in_memory_order(b, x)
        if before.dtype is not after.dtype or _is_recut(before, after):
            for s in (before, after):
                self.check(i, s)
            old, new = _stored_bits(before), _stored_bits(after)
            there = _placed(before) * old
            self.check_room(i, there + -there % 8, count * new)  # a whole byte ends packed ones
            elements = _loaded(b, _recut(b, _stored(b, elements, old), new, count), after.dtype)
        else:
            self.check_room(i, _placed(before), count)
        return _from_memory_order(b, _first_elements(b, elements, count), after)

    def check_room(self, i: Instruction, there: int, needed: int) -> None:
        """Refuse to read behind the end."""
        if needed > there:
            raise self.refused(i, f"it reads {needed} bits or elements, but there are {there}")

    def check(self, i: Instruction, s: Shape) -> None:
        """Refuse forms whose bits in memory are not known."""
        widths = (s.dtype.bits, 8) if s.dtype.bits in PACKED else (8 * s.dtype.size_bytes,)
        if s.dtype.is_complex or s.dtype.bits == 6 or _stored_bits(s) not in widths:
            why = f"how elements of {s.text} lie in memory beside elements below a byte is open"
            raise self.refused(i, why)

    def refused(self, i: Instruction, why: str) -> ExpandError:
        return refuse(
            i,
            f"no code is made for a bitcast from {i.operands[0].shape.text} to {i.shape.text}: "
            f"{why}",
            "bitcast-elements",
            "convert the elements by bitcast-convert",
        )
