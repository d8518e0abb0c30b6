"""The layout of a shape that text leaves out: that of an operand, permuted or not, or row-major.

XLA infers such a shape together with the layout, so a program whose parameters are column-major
means another one where this is done differently. Which operand counts was read off XLA's parser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE, LAYOUT_OF_OPERAND
from hloom.types.shape import Shape, tuple_shape

Operands = tuple[Instruction, ...]
_BY_FIRST = opcodes(ELEMENTWISE, LAYOUT_OF_OPERAND)
"""The layout of the first operand, where the result has its rank."""


def with_implied_layouts(
    opcode: str,
    attrs: Any,
    shape: Shape,
    operands: Operands,
    called: tuple[Computation, ...] = (),
) -> Shape:
    """`shape`, as inferred, in the layout that follows from the operands."""
    rule = _RULES.get(opcode)
    if rule is not None:
        return rule(shape, attrs, operands, called).with_default_layouts()
    if opcode in _BY_FIRST:
        return _like(shape, operands[0].shape).with_default_layouts()
    return shape.with_default_layouts()


def _like(shape: Shape, other: Shape) -> Shape:
    """The shape in the layout of another of the same rank; a tuple in those of its elements."""
    if shape.is_tuple and other.is_tuple and len(shape.elements) == len(other.elements):
        return tuple_shape(_like(a, b) for a, b in zip(shape.elements, other.elements))
    if other.layout is None or not shape.is_array or len(shape.dims) != len(other.dims):
        return shape
    return shape.with_layout(other.layout)


def _nth(k: int) -> Callable[..., Shape]:
    return lambda shape, attrs, operands, called: _like(shape, operands[k].shape)


def _of_select(shape: Shape, attrs: Any, operands: Operands, called: Any) -> Shape:
    """The selector's where it is an array, else that of the first value."""
    selector, first = operands[0].shape, operands[1].shape
    return _like(shape, selector if selector.dims else first)


def _of_transpose(shape: Shape, attrs: Any, operands: Operands, called: Any) -> Shape:
    """The layout with which transposing moves no byte."""
    layout = operands[0].shape.layout
    if layout is None:
        return shape
    place = {old: new for new, old in enumerate(attrs.dimensions)}
    order = tuple(place[d] for d in layout.minor_to_major)
    return shape.with_layout(layout.replace(minor_to_major=order))


def _of_operands(shape: Shape, attrs: Any, operands: Operands, called: Any) -> Shape:
    """Each element of the result as its operand; a single result as the first."""
    if not shape.is_tuple:
        return _like(shape, operands[0].shape)
    parts = zip(shape.elements, operands)
    return tuple_shape(_like(part, x.shape) for part, x in parts)


def _of_first_part(shape: Shape, attrs: Any, operands: Operands, called: Any) -> Shape:
    """The first element of the result as the first operand, or as its first element."""
    operand_shape = operands[0].shape
    first = _like(
        shape.elements[0], operand_shape.elements[0] if operand_shape.is_tuple else operand_shape
    )
    return tuple_shape((first, *shape.elements[1:]))


def _of_element(shape: Shape, attrs: Any, operands: Operands, called: Any) -> Shape:
    return _like(shape, operands[0].shape.elements[attrs.index])


def _of_callee(shape: Shape, attrs: Any, operands: Operands, called: Any) -> Shape:
    return _like(shape, called[0].root.shape)


_RULES: dict[str, Callable[..., Shape]] = {
    "clamp": _nth(1),
    "select": _of_select,
    "triangular-solve": _nth(1),
    "transpose": _of_transpose,
    "sort": _of_operands,
    "tuple": _of_operands,
    "scatter": _of_operands,
    "batch-norm-training": _of_first_part,
    "batch-norm-grad": _of_first_part,
    "send": _of_first_part,
    "recv-done": _of_first_part,
    "get-tuple-element": _of_element,
    "call": _of_callee,
    "conditional": _of_callee,
}
"""What is not simply the first operand's; concatenate, pad, dot, reduce and the like make their
result row-major."""
