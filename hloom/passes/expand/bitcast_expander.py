"""Bitcasts from or to elements below a byte, as conversions of their bits.

Layouts say whether such elements are packed (`E(4)`) or take a byte each, and a bitcast reads one
as the other. Inside, compiled programs keep them in a byte each whatever layouts say, so what a
bitcast reads is not what lies there: it is written out instead. Elements in their order in memory
are cut or joined by bitcast-convert, the first in the lowest bits.
"""

from __future__ import annotations

from math import prod

from hloom.ir.instruction import Instruction
from hloom.ir.meaning import without_meaning
from hloom.ir.module import Module
from hloom.passes.expand.expansion import Expander, Expansion, refuse
from hloom.passes.facts import fact
from hloom.passes.pass_ import register
from hloom.types.dtype import PRED, S8, U8, DType, dtype
from hloom.types.shape import Shape, shape
from hloom.types.sizes import packed_bits

PACKED = frozenset((1, 2, 4))
"""Bits of the elements that can share a byte."""


def _stored_bits(s: Shape) -> int:
    """Bits from one element to the next: fewer than a byte only where the layout says so."""
    stated = s.layout.element_size_in_bits if s.layout is not None else 0
    return stated or 8 * s.dtype.size_bytes


def _order(s: Shape) -> tuple[int, ...]:
    """The dimensions from outermost to innermost in memory."""
    return tuple(reversed(s.layout.minor_to_major)) if s.layout else tuple(range(s.rank))


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


def _is_below_a_byte(i: Instruction) -> bool:
    """Whether a bitcast reads packed elements as others, or in another number."""
    before, after = i.operands[0].shape, i.shape
    if PACKED.isdisjoint((before.dtype.bits, after.dtype.bits)):
        return False
    if before.is_dynamic or after.is_dynamic:
        return False
    if before.dtype is not after.dtype:
        return True
    return _stored_bits(before) != _stored_bits(after) and before.size != after.size


@fact
def bitcasts_of_bytes(module: Module) -> bool:
    """No bitcast is from or to elements below a byte, whose layouts say what they mean, but for
    those that name the bytes of packed arrays that callers hand in or are given."""
    return not any(
        i.opcode == "bitcast" and _is_below_a_byte(i) and not _names_bytes(i)
        for i in module.instructions()
    )


def _names_bytes(i: Instruction) -> bool:
    """Whether a bitcast in the entry says only that a packed array is so many bytes, or is one."""
    before, after = i.operands[0].shape, i.shape
    if not i.parent.is_entry:
        return False
    read = packed_bits(before) > 0 and after.dtype is U8
    return read or (packed_bits(after) > 0 and before.dtype is U8)


@register
class BitcastExpander(Expander):
    """Write bitcasts from or to elements below a byte as conversions of their bits."""

    name = "bitcast-expander"
    gives = (bitcasts_of_bytes,)
    opcodes = frozenset(["bitcast"])

    def wants(self, i: Instruction) -> bool:
        return _is_below_a_byte(i)

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        x, after = i.operands[0], i.shape
        if (error := without_meaning(i)) is not None:
            raise error
        for s in (x.shape, after):
            self.check(i, s)
        flat = b.reshaped(b.transposed(x, _order(x.shape)), (prod(x.shape.dims),))
        bits = _stored(b, flat, _stored_bits(x.shape))
        elements = _loaded(b, _recut(b, bits, _stored_bits(after), prod(after.dims)), after.dtype)
        order = _order(after)
        elements = b.reshaped(elements, [after.dims[d] for d in order])
        return b.transposed(elements, [order.index(d) for d in range(len(order))])

    def check(self, i: Instruction, s: Shape) -> None:
        """Refuse forms whose bits in memory are not known."""
        widths = (s.dtype.bits, 8) if s.dtype.bits in PACKED else (8 * s.dtype.size_bytes,)
        if s.dtype.is_complex or s.dtype.bits == 6 or _stored_bits(s) not in widths:
            what = "elements"
        elif s.layout is not None and s.layout.tiles:
            what = "tiles"
        else:
            return
        raise refuse(
            i,
            f"no code is made for a bitcast from {i.operands[0].shape.text} to {i.shape.text}: "
            f"how {what} of {s.text} lie in memory beside elements below a byte is open",
            "bitcast-elements",
            "convert the elements by bitcast-convert",
        )
