"""Shapes of tiles."""

from __future__ import annotations

from collections.abc import Sequence


def wants_transposed(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether a 2-D tile is better read along its first axis and turned in registers."""
    if len(shape) != 2 or 1 in shape:
        return False
    return abs(strides[1]) > 1 and strides[0] == 1


def common_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape to which all of these stretch."""
    rank = max(len(s) for s in shapes)
    result = [1] * rank
    for s in shapes:
        for axis, n in enumerate(s):
            if n != 1:
                result[axis + rank - len(s)] = n
    return tuple(result)
