"""The arrays of a shape, tuples flattened."""

from __future__ import annotations

from collections.abc import Callable

from hloom.types.shape import Shape, tuple_shape


def leaf_paths(shape: Shape) -> list[tuple[tuple[int, ...], Shape]]:
    """Each array (or token) of a shape, and where it is in its tuples."""
    if not shape.is_tuple:
        return [((), shape)]
    return [
        ((k, *path), leaf) for k, e in enumerate(shape.elements) for path, leaf in leaf_paths(e)
    ]


def mapped(shape: Shape, change: Callable[[Shape], Shape]) -> Shape:
    """The shape with each leaf changed, in order."""
    if not shape.is_tuple:
        return change(shape)
    return tuple_shape([mapped(e, change) for e in shape.elements])
