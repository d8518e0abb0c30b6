"""A sort of which only the first few are read is a topk.

The sort is of values with their positions (or values alone), descending for the largest, in an
order that `topk` has too: integers, or floats in total order. Of equal values topk takes the
lower position first, as a stable sort does; an unstable one leaves that open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.expand.expansion import Expansion, put_in_place
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import register
from hloom.types.dtype import S32

MOST_ELEMENTS = 2**31 - 1
"""In a row: `topk` says the places as s32."""


def _is_iota(i: Instruction, axis: int) -> bool:
    """Whether an array holds the positions along its last dimension."""
    if i.opcode == "broadcast" and i.attrs.dimensions == (axis,):
        return _is_iota(i.operands[0], 0)
    return i.opcode == "iota" and i.attrs.iota_dimension == axis


def _wants_largest(sort: Instruction) -> bool | None:
    """Whether the comparator is `first > second` (True) or `<` of the first operand; else None."""
    test = sort.called[0].root
    first, second = sort.called[0].parameters[:2]
    if test.opcode != "compare" or set(test.operands) != {first, second}:
        return None
    dtype = first.shape.dtype
    if dtype.is_floating and test.attrs.type != "TOTALORDER":
        return None
    if not (dtype.is_floating or dtype.is_integral):
        return None
    direction = test.attrs.direction
    if test.operands == (second, first):
        direction = {"GT": "LT", "LT": "GT"}.get(direction, "")
    return {"GT": True, "LT": False}.get(direction)


def first_few(sort: Instruction, axis: int) -> int | None:
    """How many leading elements along the last dimension all readers together take."""
    arrays = list(sort.users) if sort.shape.is_tuple else [sort]
    if sort.is_root or any(a.is_root for a in arrays):
        return None
    if sort.shape.is_tuple and any(a.opcode != "get-tuple-element" for a in arrays):
        return None
    most = 0
    for a in arrays:
        for reader in a.users:
            if reader.opcode != "slice":
                return None
            rows = reader.attrs.slice.dimensions
            if any(r.start or r.stride != 1 for r in rows):
                return None
            if any(r.limit != n for r, n in zip(rows[:axis], a.shape.dims, strict=False)):
                return None
            most = max(most, rows[axis].limit)
    return most or None


def qualifies(i: Instruction) -> tuple[bool, int] | None:
    """(largest, k) of the topk that a sort is; None when it is none."""
    x = i.operands[0]
    axis = x.shape.rank - 1
    if len(i.operands) > 2 or i.attrs.dimensions != (axis,) or x.shape.is_dynamic:
        return None
    if i.has_control_edges or x.shape.dims[axis] > MOST_ELEMENTS:
        return None
    if len(i.operands) == 2:
        positions = i.operands[1]
        if positions.shape.dtype is not S32 or not _is_iota(positions, axis):
            return None
    largest, k = _wants_largest(i), first_few(i, axis)
    if largest is None or k is None or k == x.shape.dims[axis]:
        return None
    return largest, k


def rewrite(i: Instruction, largest: bool, k: int) -> None:
    """Let the readers of a sort slice a topk of its first operand instead."""
    c = i.parent
    best = Expansion(c, {}).topk(i.operands[0], k=k, largest=largest)
    best.copy_annotations(i)
    best.backend_config = None
    axis = i.operands[0].shape.rank - 1
    for a in list(i.users) if i.shape.is_tuple else [i]:
        for reader in list(a.users):
            b = Expansion(c, {})
            part = b.element(best, a.attrs.index if i.shape.is_tuple else 0)
            limit = reader.attrs.slice.dimensions[axis].limit
            put_in_place(b, reader, b.sliced(part, axis, 0, limit))
        if a is not i:
            c.erase(a)
    c.erase(i)


@register
class TopkRewriter(ComputationPass):
    """Write a sort of which only the first elements are sliced out as topk."""

    name = "topk-rewriter"
    opcodes = frozenset(["sort"])
    breaks = (no_dead_code,)

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        for i in [i for i in c.instructions if i.opcode == "sort"]:
            match = qualifies(i)
            if match is not None:
                rewrite(i, *match)
                fired["sort"] += 1
                yield c
