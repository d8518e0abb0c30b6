"""Collectives of elements below a byte as collectives of bytes, in which two or more lie packed.

Networks and their libraries know no halves of bytes; where the innermost dimension is a whole
number of bytes on every device, pairs of elements move as one.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.ir.values.group_modes import group_mode
from hloom.passes.collectives.groups import is_plain
from hloom.passes.collectives.moving import again
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.dtype import U8
from hloom.types.shape import shape

BYTE_BITS = 8


@register
class SubByteCollectiveNormalization(Expander):
    """Replace collectives that move elements below a byte by such of bytes."""

    name = "sub-byte-collective-normalization"
    opcodes = frozenset(["all-gather", "all-to-all", "collective-permute", "collective-broadcast"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        if not is_plain(i) or group_mode(i.attrs) is None or getattr(i.attrs, "slice_sizes", ()):
            return None
        (x,), dtype = i.operands, i.shape.dtype
        if i.opcode == "all-to-all" and len(i.attrs.dimensions or ()) != 1:
            return None
        if dtype is not x.shape.dtype or dtype.is_pred or dtype.bits >= BYTE_BITS:
            return None
        if BYTE_BITS % dtype.bits:
            return None  # of six bits, which take a byte each
        packed, rank = BYTE_BITS // dtype.bits, x.shape.rank
        if not rank or x.shape.dims[-1] % packed or i.shape.dims[-1] % packed:
            return None
        if i.opcode == "all-to-all" and i.attrs.dimensions == (rank - 1,):
            return None  # parts may begin within a byte
        groups = b.reshaped(x, (*x.shape.dims[:-1], x.shape.dims[-1] // packed, packed))
        data = b.emit("bitcast-convert", groups, shape=shape(U8, groups.shape.dims[:-1]))
        of = shape(U8, (*i.shape.dims[:-1], i.shape.dims[-1] // packed))
        moved = again(b, i, data, of)
        back = b.emit("bitcast-convert", moved, shape=shape(dtype, (*of.dims, packed)))
        return b.reshaped(back, i.shape.dims)
