"""Transposes move to that side of a reshape on which there are more dimensions.

    reshape(transpose(x))  =>  transpose(reshape(x))    a reshape that only splits dimensions
    transpose(reshape(x))  =>  reshape(transpose(x))    a reshape that only joins neighbours

Orders of dimensions do not reach through reshapes. What folds or makes every eighth row of a matrix
(bits packed along columns, patches, groups) is written with rows split and the matrix turned
around it: with the transposes between the reshapes there is nothing to be moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expansion, put_in_place
from hloom.passes.layout.dimension_orders import inverse, without_ones

Groups = list[list[int]]


def split_dimensions(before: Sequence[int], after: Sequence[int]) -> Groups | None:
    """For each dimension before a reshape those after it that it is split into; None where some
    are joined, or none is split."""
    if 0 in before or without_ones(before, after) is not None:
        return None
    groups: Groups = []
    at = 0
    for size in before:
        group, rest = [], size
        while at < len(after) and rest % after[at] == 0 and (rest > 1 or after[at] == 1):
            rest //= after[at]
            group.append(at)
            at += 1
        if rest > 1:
            return None
        groups.append(group)
    return groups if at == len(after) else None


def move_transposes(c: Computation, fired: Counter[str]) -> None:
    """Move the transposes of a computation past reshapes."""
    for i in c.in_order():
        if i.opcode not in ("reshape", "transpose") or not i.shape.is_static or i.has_control_edges:
            continue
        (x,) = i.operands
        if {i.opcode, x.opcode} != {"reshape", "transpose"} or x.has_control_edges:
            continue
        if len(x.users) > 1 or x.is_root or not x.operands[0].shape.is_static:
            continue
        b = Expansion(c, {})
        new = _split_first(b, i) if i.opcode == "reshape" else _joined_last(b, i)
        if new is not None:
            put_in_place(b, i, new)
            c.erase(x)
            fired["transposes moved past reshapes"] += 1


def _split_first(b: Expansion, i: Instruction) -> Instruction | None:
    """transpose(reshape(x)) in place of reshape(transpose(x))."""
    (turned,), dims = i.operands, i.shape.dims
    groups = split_dimensions(turned.shape.dims, dims)
    if groups is None:
        return None
    # Dimension d of what is turned is dimension order[d] of x.
    order = turned.attrs.dimensions
    now = [d for e in inverse(order) for d in groups[e]]
    split = b.reshaped(turned.operands[0], tuple([dims[d] for d in now]))
    return b.transposed(split, inverse(now))


def _joined_last(b: Expansion, i: Instruction) -> Instruction | None:
    """reshape(transpose(x)) in place of transpose(reshape(x))."""
    x = i.operands[0].operands[0]
    groups = split_dimensions(i.operands[0].shape.dims, x.shape.dims)
    if groups is None:
        return None
    order = tuple([d for e in i.attrs.dimensions for d in groups[e]])
    return b.reshaped(b.transposed(x, order), i.shape.dims)
