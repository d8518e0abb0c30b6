"""Selects with one condition for all lanes of a tile: a branch around what only one side needs.

`where(is_prime[p], sieved, x)` in a loop over p, or a mask for each row: a select computes both
sides whatever the condition is. Where a side is dear (quotients of integers, functions), and
nothing else needs what it is computed from, the other one is taken without it. What is loaded,
repeated or folded is asked for before the branch, so that it stays as far out of loops as it would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hloom.device.costs import INTEGER_DIVISION
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE
from hloom.kernel.kernel import Value

if TYPE_CHECKING:
    from hloom.codegen.elements import Elements, Index

DEAR_SIDE = 16.0
"""What one side weighs at least that is worth a branch: two exponentials of a vector."""
WITHIN = opcodes(ELEMENTWISE)
MOST_APART = 64
"""So many operations of a side are in the branch; what they need beside is computed before."""
MOST_CONDITIONS = 8
"""Operations of a condition that are looked at."""


class Sides(NamedTuple):
    """What only one of the two sides of a select needs, of operations at its own index."""

    first: dict[Instruction, None]
    second: dict[Instruction, None]


def dear_sides(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Sides | None:
    """The sides of a select that is a branch; None where it is none."""
    if i.opcode != "select" or mask is not None or e.supplied or not e.shares_rows:
        return None
    if not any(x.axes for x in index):
        return None
    condition, *values = i.operands
    if not _is_uniform(condition, index):
        return None
    sides = Sides(*[_apart(e, i, x, index) for x in values])
    return sides if max([_weight(e, side) for side in sides]) >= DEAR_SIDE else None


def before_branch(i: Instruction, sides: Sides) -> dict[Instruction, None]:
    """What is to be computed before the branch."""
    condition, *values = i.operands
    before = {condition: None}
    for x, side in zip(values, sides, strict=True):
        for y in (x, *[y for inner in side for y in inner.operands]):
            if y not in side:
                before[y] = None
    return before


def branched(e: Elements, i: Instruction, index: Index) -> Value:
    """The value of the side that the condition says; all that stands before is computed."""
    b = e.builder
    condition, *values = i.operands
    shape = e.shape_of(frozenset[int]().union(*[x.axes for x in index]))

    def alone(x: Instruction) -> list[Value]:
        floor, e.floor = e.floor, b.depth
        value = b.broadcast(e.value(x, index), shape)
        e.forget(b.depth)
        e.floor = floor
        return [value]

    chosen = e.value(condition, index)
    [value] = b.if_apart(chosen, lambda: alone(values[0]), lambda: alone(values[1]))
    return value


def _is_uniform(condition: Instruction, index: Index) -> bool:
    """Whether a condition is the same for all lanes: made of what is repeated along them."""
    seen, waiting = {condition}, [condition]
    while waiting:
        x = waiting.pop()
        if x.opcode == "broadcast":
            if any(index[d].axes for d in x.attrs.dimensions):
                return False
        elif x.opcode in ("and", "or", "not", "xor", "compare") and len(seen) <= MOST_CONDITIONS:
            waiting += [y for y in x.operands if y not in seen]
            seen.update(x.operands)
        else:
            return False
    return True


def _apart(e: Elements, i: Instruction, x: Instruction, index: Index) -> dict[Instruction, None]:
    """The operations that only this side needs, as many as go into a branch, the last one first."""
    side: dict[Instruction, None] = {}
    waiting = [x]
    while waiting and len(side) < MOST_APART:
        y = waiting.pop(0)
        if y in side or y.opcode not in WITHIN or not e.is_to_write(y, index, None):
            continue
        if all(u is i or u in side for u in y.users):
            side[y] = None
            waiting += y.operands
    return side


def _weight(e: Elements, side: dict[Instruction, None]) -> float:
    weights = e.device.costs.weight
    return sum(
        [
            INTEGER_DIVISION
            if x.opcode in ("divide", "remainder") and x.shape.dtype.is_integral
            else weights(x.opcode)
            for x in side
        ]
    )
