"""Prints shapes, on a stack of its own so that tuples may nest as deep as they like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hloom.types.dtype import TUPLE
from hloom.types.layout import default_layout

if TYPE_CHECKING:
    from hloom.types.shape import Shape

UNBOUNDED: Final = -(2**63)
"""The size of a dynamic dimension without a bound, `?` in text."""


def shape_text(shape_: Shape, *, index_comments: bool = True) -> str:
    """The text of a shape, with or without `/*index=5*/` in wide tuples."""
    parts: list[str] = []
    stack: list[Shape | str] = [shape_]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        if not item.elements or item.is_array:
            parts.append(_leaf_text(item))
            continue
        parts.append("(" if item.is_tuple else "b(")
        stack.append(")")
        for position in range(len(item.elements) - 1, -1, -1):
            stack.append(item.elements[position])
            comment = index_comments and position and position % 5 == 0
            separator = ", " if position else ""
            stack.append(f"{separator}/*index={position}*/" if comment else separator)
    return "".join(parts)


def _leaf_text(leaf: Shape) -> str:
    if leaf.dtype is TUPLE:
        return "()"
    if leaf.dynamic:
        sizes = ",".join(
            "?" if size == UNBOUNDED else f"<={size}" if is_dynamic else str(size)
            for size, is_dynamic in zip(leaf.dims, leaf.dynamic, strict=True)
        )
    else:
        sizes = ",".join(map(str, leaf.dims))
    shown = ""
    if leaf.layout is not None and (leaf.dims or leaf.layout is not default_layout(0)):
        shown = leaf.layout.text
    return f"{leaf.dtype.name}[{sizes}]{shown}"
