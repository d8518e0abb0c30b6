"""Dots of an all-to-all, and all-to-alls of a dot, in as many pieces as there are devices.

A piece's product is computed while the next piece is exchanged. There are as many bytes as before.
Pieces are cut along a dimension that the exchange leaves alone: one that is summed, whose products
are added up, or a free one, whose products stand side by side.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.dot_parts import (
    dot_of_parts,
    free_dimensions,
    is_number,
    operand_dimensions,
    sum_type,
)
from hloom.passes.collectives.groups import devices_of, group_size, is_plain, sole_reader
from hloom.passes.collectives.moving import again
from hloom.passes.expand.expansion import Expansion
from hloom.types.shape import shape


def pieces_of(i: Instruction) -> int | None:
    """Into how many pieces an all-to-all of one array is cut; None for others."""
    if not is_plain(i) or len(i.attrs.dimensions or ()) != 1:
        return None
    groups = devices_of(i)
    count = group_size(groups) if groups is not None else None
    return count if count is not None and count > 1 else None


def dot_of_exchanged(
    b: Expansion, i: Instruction, side: int, exchange: Instruction
) -> Instruction | None:
    """A dot of an all-to-all as dots of all-to-alls of slices."""
    count = pieces_of(exchange)
    if count is None or not is_number(i) or i.operands[1 - side] is exchange:
        return None
    (x,), other, (kept,) = exchange.operands, i.operands[1 - side], exchange.attrs.dimensions
    depth = (i.attrs.lhs_contracting_dims, i.attrs.rhs_contracting_dims)
    free = free_dimensions(i, side)
    for d in (*depth[side], *free):
        size = x.shape.dims[d]
        if d == kept or size % count or not size:
            continue
        is_sum, tile = d in depth[side], size // count
        total = sum_type(i.shape.dtype) if is_sum else i.shape.dtype
        parts = []
        for k in range(count):
            piece = b.sliced(x, d, k * tile, (k + 1) * tile)
            operands = [again(b, exchange, piece, piece.shape), other]
            if is_sum:
                e = depth[1 - side][depth[side].index(d)]
                operands[1] = b.sliced(other, e, k * tile, (k + 1) * tile)
            parts.append(dot_of_parts(b, i, operands if side == 0 else operands[::-1], total))
        # Nothing else reads what was exchanged, and a collective is removed by whom makes it so.
        i.set_operands((x, other) if side == 0 else (other, x))
        exchange.parent.erase(exchange)
        if not is_sum:
            return b.joined(parts, free[d])
        whole = parts[0]
        for part in parts[1:]:
            whole = b.add(whole, part)
        return b.converted(whole, i.shape.dtype)
    return None


def exchanged_dot(b: Expansion, i: Instruction) -> Instruction | None:
    """An all-to-all of a dot as all-to-alls of dots of slices."""
    count, dot = pieces_of(i), i.operands[0]
    if count is None or dot.opcode != "dot" or sole_reader(dot) is not i or not is_number(dot):
        return None
    if any(x.opcode == "all-to-all" for x in dot.operands):
        return None  # it is cut already, by what it reads
    (kept,) = i.attrs.dimensions
    for o, size in enumerate(dot.shape.dims):
        if o == kept or size % count or not size:
            continue
        tile, parts = size // count, []
        for k in range(count):
            operands = list(dot.operands)
            for side, d in operand_dimensions(dot, o):
                operands[side] = b.sliced(operands[side], d, k * tile, (k + 1) * tile)
            part = dot_of_parts(b, dot, operands, dot.shape.dtype)
            parts.append(again(b, i, part, shape(part.shape.dtype, part.shape.dims)))
        return b.joined(parts, o)
    return None
