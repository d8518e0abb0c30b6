"""Dots of an all-to-all, and all-to-alls of a dot, in as many pieces as there are devices.

A piece's product is computed while the next piece is exchanged. There are as many bytes as before.
Pieces are cut along a dimension that the exchange leaves alone: a batch, whose products share
nothing (the experts of a device), one that is summed, whose products are added up, or a free one,
whose products stand side by side. What turns, splits and joins dimensions between the exchange and
the dot, as a partitioner writes it where devices hand over one dimension for another, is done to
each piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import RESHAPES
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

FORMS = opcodes(RESHAPES, also=("transpose", "copy", "convert")) - {"bitcast"}
"""What gives the same elements in another form."""


def pieces_of(i: Instruction) -> int | None:
    """Into how many pieces an all-to-all of one array is cut; None for others."""
    if not is_plain(i) or len(i.attrs.dimensions or ()) != 1 or _is_piece(i):
        return None
    groups = devices_of(i)
    count = group_size(groups) if groups is not None else None
    return count if count is not None and count > 1 else None


def _is_piece(exchange: Instruction) -> bool:
    """Whether others exchange the rest of what it reads, or what it gives is joined with theirs."""
    (x,), reader = exchange.operands, sole_reader(exchange)
    if x.opcode == "slice":
        siblings = [s for s in x.operands[0].users if s.opcode == "slice" and s is not x]
        return any(u.opcode == "all-to-all" for s in siblings for u in s.users)
    if reader is None or reader.opcode != "concatenate":
        return False
    return all(part.opcode == "all-to-all" for part in reader.operands)


def dot_of_exchanged(b: Expansion, i: Instruction, side: int) -> Instruction | None:
    """A dot of an all-to-all as dots of all-to-alls of slices."""
    exchange, forms = _origin(i.operands[side], i)
    count = pieces_of(exchange) if exchange.opcode == "all-to-all" else None
    if count is None or sole_reader(exchange) is None or not is_number(i):
        return None
    if i.operands[0] is i.operands[1]:
        return None
    (x,), other, (kept,) = exchange.operands, i.operands[1 - side], exchange.attrs.dimensions
    a = i.attrs
    batch = (a.lhs_batch_dims, a.rhs_batch_dims)
    depth = (a.lhs_contracting_dims, a.rhs_contracting_dims)
    free = free_dimensions(i, side)
    for d in (*batch[side], *depth[side], *free):
        size, e = i.operands[side].shape.dims[d], _before(forms, d)
        if e is None or e == kept or size % count or not size:
            continue
        is_sum, tile = d in depth[side], size // count
        both = next((m for m in (batch, depth) if d in m[side]), None)
        total = sum_type(i.shape.dtype) if is_sum else i.shape.dtype
        parts = []
        for k in range(count):
            piece = b.sliced(x, e, k * tile, (k + 1) * tile)
            piece = _in_forms(b, again(b, exchange, piece, piece.shape), forms, e, tile)
            operands = [piece, other]
            if both is not None:
                far = both[1 - side][both[side].index(d)]
                operands[1] = b.sliced(other, far, k * tile, (k + 1) * tile)
            parts.append(dot_of_parts(b, i, operands if side == 0 else operands[::-1], total))
        # Nothing else reads what was exchanged, and a collective is removed by whom makes it so.
        i.set_operands((other, other))
        for link in (*reversed(forms), exchange):
            link.parent.erase(link)
        if not is_sum:
            return b.joined(parts, batch[side].index(d) if both is not None else free[d])
        whole = parts[0]
        for part in parts[1:]:
            whole = b.add(whole, part)
        return b.converted(whole, i.shape.dtype)
    return None


def exchanged_dot(b: Expansion, i: Instruction) -> Instruction | None:
    """An all-to-all of a dot as all-to-alls of dots of slices."""
    count = pieces_of(i)
    if count is None:
        return None
    dot, forms = _origin(i.operands[0], i)
    if dot.opcode != "dot" or sole_reader(dot) is None or not is_number(dot):
        return None
    if any(_origin(x, dot)[0].opcode == "all-to-all" for x in dot.operands):
        return None  # it is cut already, by what it reads
    (kept,) = i.attrs.dimensions
    for o, size in enumerate(dot.shape.dims):
        e = _after(forms, o)
        if e is None or e == kept or size % count or not size:
            continue
        tile, parts = size // count, []
        for k in range(count):
            operands = list(dot.operands)
            for side, d in operand_dimensions(dot, o):
                operands[side] = b.sliced(operands[side], d, k * tile, (k + 1) * tile)
            part = dot_of_parts(b, dot, operands, dot.shape.dtype)
            part = _in_forms(b, part, forms, o, tile)
            parts.append(again(b, i, part, shape(part.shape.dtype, part.shape.dims)))
        return b.joined(parts, e)
    return None


def _origin(x: Instruction, reader: Instruction) -> tuple[Instruction, list[Instruction]]:
    """What a value is a form of, and the steps from there, first ones first: those that nobody else
    reads."""
    forms: list[Instruction] = []
    while x.opcode in FORMS and sole_reader(x) is reader:
        if x.shape.is_dynamic or x.has_control_edges:
            break
        forms.insert(0, x)
        (x,), reader = x.operands, x
    return x, forms


def _before(forms: Sequence[Instruction], d: int) -> int | None:
    """The dimension that a dimension of the last form was before all; None where it is none."""
    for form in reversed(forms):
        if form.opcode == "transpose":
            d = form.attrs.dimensions[d]
        elif form.opcode == "reshape":
            same = _same_in(form.shape.dims, d, form.operands[0].shape.dims)
            if same is None:
                return None
            d = same
    return d


def _after(forms: Sequence[Instruction], d: int) -> int | None:
    """The dimension of the last form that a dimension has become; None where it is none."""
    for form in forms:
        if form.opcode == "transpose":
            d = form.attrs.dimensions.index(d)
        elif form.opcode == "reshape":
            same = _same_in(form.operands[0].shape.dims, d, form.shape.dims)
            if same is None:
                return None
            d = same
    return d


def _same_in(dims: Sequence[int], d: int, others: Sequence[int]) -> int | None:
    """The dimension of a reshaped array that counts what one counts before."""
    return next(
        (
            e
            for e, size in enumerate(others)
            if size == dims[d] and prod(others[:e]) == prod(dims[:d])
        ),
        None,
    )


def _in_forms(
    b: Expansion, x: Instruction, forms: Sequence[Instruction], d: int, tile: int
) -> Instruction:
    """A piece that is `tile` long along a dimension, in the forms that the whole had."""
    for form in forms:
        after = _after([form], d)
        assert after is not None, "only dimensions that stay one are cut"
        d = after
        if form.opcode == "transpose":
            x = b.emit("transpose", x, dimensions=form.attrs.dimensions)
        elif form.opcode == "reshape":
            dims = [tile if e == d else size for e, size in enumerate(form.shape.dims)]
            x = b.emit("reshape", x, shape=shape(form.shape.dtype, dims))
        elif form.opcode == "convert":
            x = b.converted(x, form.shape.dtype)
    return x
