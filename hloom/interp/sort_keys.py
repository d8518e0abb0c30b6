"""Comparators that numpy can sort by: one or more keys, compared one after the other.

Most comparators are `f(a) < f(b)` for some elementwise f, or such comparisons chained as
`x0 < y0 or (x0 == y0 and (x1 < y1 or ...))`, where f cleans zeros and NaN and picks the operand.
`keys_of` recognises those, however f looks, and `key_values` computes arrays of numbers whose
usual order is that of the comparator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.interp.context import EvalContext
from hloom.interp.elementwise_compare import total_order
from hloom.interp.elementwise_number import widened
from hloom.interp.registry import MEANING
from hloom.interp.values import from_literal
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE
from hloom.types.dtype import DType

Array = np.ndarray[Any, Any]
LARGEST_COMPARATOR = 500
"""Comparators of more instructions are not looked into."""


@dataclass(frozen=True, slots=True)
class Key:
    """One comparison of a comparator: f of the first elements against f of the second."""

    expression: Instruction
    """f, as the part of the comparator that reads the first elements (even parameters)."""
    descending: bool
    total: bool
    """Whether floats compare in total order."""


def keys_of(comparator: Computation) -> tuple[Key, ...] | None:
    """The keys a comparator compares, first things first; None when it is something else."""
    if len(comparator) > LARGEST_COMPARATOR:
        return None
    keys: list[Key] = []
    node: Instruction | None = comparator.root
    while node is not None:
        first, node = _first_key(node)
        if first is None:
            return None
        keys.append(first)
    return tuple(keys)


def _first_key(node: Instruction) -> tuple[Key | None, Instruction | None]:
    """The first comparison, and what decides when it finds both equal (None: nothing)."""
    if node.opcode == "compare":
        return _key(node), None
    if node.opcode == "or":
        for less, tie in (node.operands, node.operands[::-1]):
            if less.opcode != "compare" or tie.opcode != "and":
                continue
            for equal, rest in (tie.operands, tie.operands[::-1]):
                if _is_tie(equal, less, "EQ"):
                    return _key(less), rest
    if node.opcode == "select":
        equal, on_true, on_false = node.operands
        if _is_tie(equal, on_false, "EQ"):
            return _key(on_false), on_true
        if _is_tie(equal, on_true, "NE"):
            return _key(on_true), on_false
    return None, None


def _is_tie(equal: Instruction, less: Instruction, direction: str) -> bool:
    """Whether `equal` says (for EQ) that `less` compares equal things."""
    if equal.opcode != "compare" or less.opcode != "compare" or equal is less:
        return False
    if equal.attrs.direction != direction or less.attrs.direction not in ("LT", "GT"):
        return False
    x, y = less.operands
    if x.shape.dtype.is_floating and _is_total(equal) != _is_total(less):
        return False
    a, b = equal.operands
    return (_same(a, x) and _same(b, y)) or (_same(a, y) and _same(b, x))


def _is_total(compare: Instruction) -> bool:
    return compare.attrs.type == "TOTALORDER"


def _key(compare: Instruction) -> Key | None:
    if compare.attrs.direction not in ("LT", "GT"):
        return None
    x, y = compare.operands
    if x.shape.dtype.is_complex or not _same(x, y, swapped=True):
        return None
    sides = _sides(x)
    if sides == {0}:
        return Key(x, compare.attrs.direction == "GT", _is_total(compare))
    if sides == {1}:
        return Key(y, compare.attrs.direction == "LT", _is_total(compare))
    return None


def _sides(x: Instruction) -> set[int]:
    """Which elements an expression reads: 0 for the first ones, 1 for the second ones."""
    seen: set[Instruction] = set()
    stack, sides = [x], set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        stack.extend(node.operands)
        if node.opcode == "parameter":
            sides.add(node.attrs.number % 2)
    return sides


def _same(x: Instruction, y: Instruction, swapped: bool = False) -> bool:
    """Whether both are the same elementwise expression, of the other elements if `swapped`."""
    seen: set[tuple[Instruction, Instruction]] = set()
    stack = [(x, y)]
    while stack:
        a, b = stack.pop()
        if (a, b) in seen:
            continue
        seen.add((a, b))
        if a.opcode != b.opcode or a.shape.bare is not b.shape.bare or not a.shape.is_scalar:
            return False
        if a.opcode == "parameter":
            if a.attrs.number != b.attrs.number ^ swapped:
                return False
        elif a.opcode == "constant":
            if a is not b and _bytes(a) != _bytes(b):
                return False
        elif a.called or a.attrs != b.attrs or not _acts_by_element(a):
            return False
        else:
            stack.extend(zip(a.operands, b.operands))
    return True


_ELEMENTWISE = opcodes(ELEMENTWISE)


def _acts_by_element(i: Instruction) -> bool:
    """Whether an operation on scalars means the same on each element of a batch by itself."""
    if i.opcode == "bitcast":
        return i.operands[0].shape.dtype.bits == i.shape.dtype.bits
    return i.opcode in _ELEMENTWISE


def _bytes(constant: Instruction) -> bytes:
    return np.asarray(from_literal(constant.attrs.literal)).tobytes()


def key_values(context: EvalContext, key: Key, inputs: tuple[Array, ...]) -> Array | None:
    """Numbers that numpy sorts ascending, stably, as the comparator does; None when there are
    none, because NaN compares false with everything."""
    values = _evaluated(context, key.expression, inputs)
    dtype: DType = key.expression.shape.dtype
    return ascending(np.broadcast_to(values, inputs[0].shape), dtype, key.descending, key.total)


def ascending(values: Array, dtype: DType, descending: bool, total: bool) -> Array | None:
    """See `key_values`."""
    if dtype.is_floating and not total:
        values = widened(values, dtype)
        if np.isnan(values).any():
            return None
        return -values if descending else values
    if dtype.is_floating:
        values = total_order(values, dtype)
    elif dtype.is_pred:
        values = values.view(np.uint8)
    else:
        values = widened(values, dtype)
    return ~values if descending else values


def _evaluated(context: EvalContext, x: Instruction, inputs: tuple[Array, ...]) -> Array:
    """The expression on whole arrays; operand k of the sort is parameter 2 * k."""
    if x.opcode == "parameter":
        return inputs[x.attrs.number // 2]
    values: dict[Instruction, Array] = {}
    stack = [x]
    while stack:
        node = stack[-1]
        missing = [y for y in node.operands if y not in values]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if node in values:
            continue
        if node.opcode == "parameter":
            values[node] = inputs[node.attrs.number // 2]
        elif node.opcode == "constant":
            values[node] = from_literal(node.attrs.literal)
        else:
            opcode = "bitcast-convert" if node.opcode == "bitcast" else node.opcode
            values[node] = MEANING[opcode](node, context, *[values[y] for y in node.operands])
    return values[x]
