"""Bitcast: the bytes an array has in memory, read as another shape.

Layouts decide where elements lie, so both directions are taken here: the physical order of the
elements of a shape (minor-to-major, then each level of tiles), and the way back. Only when the
element widths differ are actual bits looked at.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.context import EvalContext
from hloom.interp.data import reshape
from hloom.interp.elementwise_number import bits_of, from_bits
from hloom.interp.registry import MEANING
from hloom.ir.instruction import Instruction
from hloom.types.dtype import DType
from hloom.types.shape import Shape
from hloom.types.tiles import physical_dimensions, physical_sizes, sizes_on_the_way, tiling_steps

Array = np.ndarray[Any, Any]


@MEANING.of("bitcast")
def bitcast(i: Instruction, context: EvalContext, x: Array) -> Array:
    before, after = i.operands[0].shape, i.shape
    same_count = prod(before.dims) == prod(after.dims)
    same_elements = same_count and before.dtype is after.dtype
    if same_elements and _plain(before) and _plain(after):
        return reshape(i, context, x)
    memory = _physical(x, before)
    same_width = before.dtype is after.dtype and _stored_bits(before) == _stored_bits(after)
    if not (same_elements or same_width):
        memory = _reinterpreted(memory, before, after)
    return _logical(memory, after)


def _plain(shape: Shape) -> bool:
    """Whether elements lie row-major without tiles."""
    return shape.layout is None or (
        not shape.layout.tiles and physical_dimensions(shape) == tuple(range(shape.rank))
    )


def _stored_bits(shape: Shape) -> int:
    """Bits from one element to the next: packed only where the layout says so."""
    if shape.layout is not None and shape.layout.element_size_in_bits:
        return shape.layout.element_size_in_bits
    return shape.dtype.size_bytes * 8


# -- the order of elements ----------------------------------------------------------------------


def _physical(x: Array, shape: Shape) -> Array:
    """The elements in memory order, padding between them zero; rank 1."""
    x = np.transpose(x, physical_dimensions(shape))
    for what, argument in tiling_steps(x.shape, shape.layout):
        if what == "pad":
            x = np.pad(x, [(0, n - m) for n, m in zip(argument, x.shape)])
        elif what == "split":
            x = x.reshape(argument)
        else:
            x = np.transpose(x, argument)
    return x.reshape(-1)


def _logical(memory: Array, shape: Shape) -> Array:
    """The array whose elements lie in memory like this."""
    order, sizes = physical_dimensions(shape), physical_sizes(shape)
    steps = tiling_steps(sizes, shape.layout)
    forms = sizes_on_the_way(sizes, steps)
    if memory.size < prod(forms[-1]):
        raise EvalError(f"a bitcast reads more elements than there are: {shape}")
    x = memory[: prod(forms[-1])].reshape(forms[-1])
    for (what, argument), before in zip(reversed(steps), reversed(forms[:-1])):
        if what == "pad":
            x = x[tuple(slice(0, n) for n in before)]
        elif what == "split":
            x = x.reshape(before)
        else:
            x = np.transpose(x, np.argsort(argument))
    return np.transpose(x, np.argsort(order)) if order else x.reshape(())


# -- elements of other widths -------------------------------------------------------------------


def _reinterpreted(memory: Array, before: Shape, after: Shape) -> Array:
    """The same bytes as elements of the other type, the first element in the lowest bits."""
    """The same bits as elements of the other type, the first element in the lowest bits."""
    old, new = _stored_bits(before), _stored_bits(after)
    bits = _spread_bits(memory, before.dtype, old)
    bits = np.pad(bits, (0, -bits.size % 8))  # packed elements end with a whole byte
    count = bits.size // new
    return _gathered_bits(bits[: count * new].reshape(count, new), after.dtype)


def _spread_bits(memory: Array, dtype: DType, width: int) -> Array:
    """One uint8 of 0 or 1 for each bit in memory."""
    if dtype.bits < 8:
        raw = bits_of(memory, dtype).astype(np.uint8)
        if dtype.is_signed_int and width > dtype.bits:
            # Unpacked small integers are kept sign-extended to their byte.
            raw = memory.astype(np.int8).view(np.uint8)
    else:
        raw = np.ascontiguousarray(memory).view(np.uint8)
    bits = np.unpackbits(raw, bitorder="little")
    return bits.reshape(-1, 8)[:, :width].reshape(-1) if width < 8 else bits


def _gathered_bits(bits: Array, dtype: DType) -> Array:
    """One element for each row of bits."""
    packed = np.packbits(bits, axis=1, bitorder="little")
    if dtype.bits >= 8 and not dtype.is_pred:
        return np.ascontiguousarray(packed).view(dtype.numpy).reshape(len(bits))
    return from_bits(packed.reshape(len(bits)) & np.uint8(_mask(dtype)), dtype)


def _mask(dtype: DType) -> int:
    return 255 if dtype.is_pred else (1 << dtype.bits) - 1
