"""What a sort's comparator says: by which operands, in which direction, with which zeros and NaNs.

The patterns are those of lexicographic order: `x < y`, `x < y or (x == y and rest)`, and
`select(x == y, rest, x < y)`, in any order of commuting operands. A key may be wrapped so that all
zeros and all NaNs are equal, as JAX does: `select(x == 0, 0, x)`, `select(x != x, nan, x)`.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction

DESCENDING = 1
EQUAL_ZEROS = 2
EQUAL_NANS = 4


@dataclass(frozen=True)
class Key:
    """An operand that a sort looks at."""

    operand: int
    flags: int


@dataclass(frozen=True)
class _Side:
    """One side of a comparison: a parameter, and what is equal in it."""

    number: int
    flags: int


def sort_keys(c: Computation, count: int) -> list[Key] | None:
    """The keys of a comparator in order of weight; None if it is none of the patterns."""
    return _lexicographic(c.root)


def _lexicographic(x: Instruction) -> list[Key] | None:
    if x.opcode == "compare":
        key = _compared(x)
        return None if key is None else [key]
    if x.opcode == "or":
        for first, second in (x.operands, x.operands[::-1]):
            key = _compared(first)
            if key is None or second.opcode != "and":
                continue
            for equal, rest in (second.operands, second.operands[::-1]):
                if _is_equality(equal, key):
                    keys = _lexicographic(rest)
                    if keys is not None:
                        return [key, *keys]
    if x.opcode == "select":
        equal, rest, first = x.operands
        key = _compared(first)
        if key is not None and _is_equality(equal, key):
            keys = _lexicographic(rest)
            if keys is not None:
                return [key, *keys]
    return None


def _compared(x: Instruction) -> Key | None:
    """The key of `compare(lhs, rhs)` where both are the same operand at two places."""
    if x.opcode != "compare" or x.attrs.direction not in ("LT", "GT"):
        return None
    a, b = _side(x.operands[0]), _side(x.operands[1])
    if a is None or b is None or a.flags != b.flags or a.number // 2 != b.number // 2:
        return None
    if a.number == b.number:
        return None
    descending = (x.attrs.direction == "GT") != (a.number > b.number)
    flags = a.flags | (DESCENDING if descending else 0)
    of = x.operands[0].shape.dtype
    if of.is_complex:
        return None
    if of.is_floating and x.attrs.type != "TOTALORDER":
        flags |= EQUAL_ZEROS | EQUAL_NANS
    return Key(a.number // 2, flags)


def _is_equality(x: Instruction, key: Key) -> bool:
    """Whether this says that the key's two elements are equal."""
    if x.opcode != "compare" or x.attrs.direction != "EQ":
        return False
    a, b = _side(x.operands[0]), _side(x.operands[1])
    if a is None or b is None:
        return False
    return {a.number, b.number} == {2 * key.operand, 2 * key.operand + 1}


def _side(x: Instruction) -> _Side | None:
    if x.opcode == "parameter":
        return _Side(x.attrs.number, 0)
    if x.opcode in ("copy", "bitcast") and x.operands[0].shape.dtype is x.shape.dtype:
        return _side(x.operands[0])
    if x.opcode != "select":
        return None
    test, yes, no = x.operands
    if test.opcode != "compare" or yes.opcode != "constant":
        return None
    inner = _side(no)
    if inner is None:
        return None
    number = complex(yes.attrs.literal.first())
    if test.attrs.direction == "EQ" and number == 0 and _same(test.operands[0], no):
        other = test.operands[1]
        if other.opcode == "constant" and other.attrs.literal.is_zero:
            return _Side(inner.number, inner.flags | EQUAL_ZEROS)
    if (
        test.attrs.direction == "NE"
        and number != number
        and test.operands[0] is test.operands[1]
        and (_same(test.operands[0], no) or _side(test.operands[0]) is not None)
    ):
        tested = _side(test.operands[0])
        if tested is not None and tested.number == inner.number:
            return _Side(inner.number, inner.flags | EQUAL_NANS)
    return None


def _same(x: Instruction, y: Instruction) -> bool:
    """Whether two expressions are one element, up to what makes zeros and NaNs equal."""
    a, b = _side(x), _side(y)
    return a is not None and b is not None and a.number == b.number
