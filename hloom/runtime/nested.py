"""Nested tuples of arrays, as callers have them, and their leaves in order."""

from __future__ import annotations

from typing import Any

from hloom.base.diagnostics import UsageError
from hloom.runtime.buffer import Buffer
from hloom.types.literal import Literal
from hloom.types.shape import Shape


def flatten(shape: Shape, value: Any, where: str, leaves: list[Any]) -> None:
    """Append the arrays of an argument, in the order of the parameter's leaves."""
    if shape.is_array:
        leaves.append(value)
        return
    if not shape.is_tuple:
        return
    if isinstance(value, Literal) and value.is_tuple:
        value = value.elements
    if not isinstance(value, tuple | list):
        raise UsageError(
            f"{where} is a {type(value).__name__}, the program wants a tuple of "
            f"{len(shape.elements)}: {shape.text_without_layout}",
            rule="argument-type",
        )
    if len(value) != len(shape.elements):
        raise UsageError(
            f"{where} is a tuple of {len(value)}, the program wants {len(shape.elements)}: "
            f"{shape.text_without_layout}",
            rule="argument-type",
        )
    for k, (part, inside) in enumerate(zip(shape.elements, value)):
        flatten(part, inside, f"{where}.{k}", leaves)


def nested(shape: Shape, leaves: Any) -> Any:
    """The value of a shape whose arrays come from an iterator."""
    if shape.is_tuple:
        return tuple([nested(s, leaves) for s in shape.elements])
    leaf: Buffer | None = next(leaves)
    return leaf
