"""Elementwise instructions in the code of a kernel: what they need first, and once for a row.

Where the lanes of a tile run over several rows of a short dimension (48 lanes: 8 rows of 6), a
dear value that only the row decides would be computed 6 times. `simple` asks for it with a lane for
each row, and repeats the result. Bits do not change: each lane has the number that it had.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hloom.codegen.affine import Affine, Symbol
from hloom.codegen.elements_select import before_branch, branched, dear_sides
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value

if TYPE_CHECKING:
    from hloom.codegen.elements import Elements, Index, Result

DEAR = 4.0
"""What an operation weighs at least that is worth repeating its result: a quotient."""


def simple(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    """The value of an elementwise instruction at an index, of its operands at the same index."""
    row = _row_of_lanes(e, index) if mask is None and e.shares_rows and not e.supplied else None
    if row is not None and _is_dear(e, i):
        return _by_rows(e, i, index, row)
    for x in _beneath(e, i, index, mask, row is not None):
        e.value(x, index, mask)
    if row is None and dear_sides(e, i, index, mask) is not None:
        return branched(e, i, index)
    return e.elementwise(i, [e.value(x, index, mask) for x in i.operands])


def as_stored(e: Elements, i: Instruction, value: Result) -> Result:
    """What others read from memory is the same number here, without further digits."""
    return as_in_memory(e, value) if i in e.stored and isinstance(value, Value) else value


def as_in_memory(e: Elements, value: Value) -> Value:
    """The number that a load would find after a store."""
    kind = value.dtype
    if not kind.is_half:
        return value
    attrs = {"exponent_bits": kind.exponent_bits, "mantissa_bits": kind.mantissa_bits}
    return e.builder.add("reduce-precision", (value,), value.type, attrs)


def _beneath(
    e: Elements, i: Instruction, index: Index, mask: Value | None, by_rows: bool
) -> list[Instruction]:
    """What an elementwise instruction needs at its own index, through others of its kind, operands
    first: written in this order none waits for another, and chains may be longer than a stack."""

    def needed(x: Instruction) -> Iterable[Instruction]:
        sides = None if by_rows else dear_sides(e, x, index, mask)
        return x.operands if sides is None else before_branch(x, sides)

    order: list[Instruction] = []
    seen, waiting = {i}, [(i, iter(needed(i)))]
    while waiting:
        x, rest = waiting[-1]
        for y in rest:
            if y not in seen:
                seen.add(y)
                is_end = (by_rows and _is_dear(e, y)) or not e.is_to_write(y, index, mask)
                waiting.append((y, iter(() if is_end else needed(y))))
                break
        else:
            order.append(x)
            waiting.pop()
    return order[:-1]


def _by_rows(e: Elements, i: Instruction, index: Index, row: Symbol) -> Value:
    assert row.origin is not None
    [lanes], width = e.tile, row.origin[2]
    rows = lanes // width
    narrow = e.indices.lane_of_row(row, rows)
    e.tile = (rows,)
    try:
        value = e.value(i, tuple([_with(x, row, narrow) for x in index]))
    finally:
        e.tile = (lanes,)
    b = e.builder
    column = b.reshape(b.broadcast(value, (rows,)), (rows, 1))
    return b.reshape(b.broadcast(column, (rows, width)), (lanes,))


def _is_dear(e: Elements, i: Instruction) -> bool:
    return i.shape.dtype.is_floating and e.device.costs.weight(i.opcode) >= DEAR


def _row_of_lanes(e: Elements, index: Index) -> Symbol | None:
    """The one symbol through which the index varies along lanes, if it is the number of a row."""
    varying = {s for x in index for s, _ in x.terms if s.axes}
    if len(varying) != 1 or len(e.tile) != 1:
        return None
    [row] = varying
    if row.origin is None or row.origin[0] != "div":
        return None
    _, x, width = row.origin
    if x.const or len(x.terms) != 1 or e.tile[0] % width:
        return None
    [(lane, by)] = x.terms
    is_all_lanes = lane.axis == 0 and by == 1 and lane.high + 1 == e.tile[0]
    return row if is_all_lanes and e.tile[0] > width else None


def _with(x: Affine, row: Symbol, narrow: Affine) -> Affine:
    """The index with a lane of each row in place of the row of each lane."""
    rest = Affine(x.const, tuple([t for t in x.terms if t[0] is not row]))
    by = sum(c for s, c in x.terms if s is row)
    return rest.plus(narrow.times(by)) if by else rest
