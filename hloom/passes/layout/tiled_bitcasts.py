"""Whether a bitcast between shapes in tiles gives every element the place that it has without them.

Programs of other machines state tiles, in which nothing lies here: arrays are kept in the order of
their dimensions alone. A bitcast means memory, so it is kept where tiles on both sides put the
elements in one order, and written out elsewhere (`bitcast-expander`). That is asked of the places
themselves, of a sample in large arrays.
"""

from __future__ import annotations

from math import prod

import numpy as np

from hloom.types.shape import Shape
from hloom.types.tiles import physical_sizes, tiling_steps

MOST_ASKED = 4000
"""Elements whose places are compared; places are sums of digits, so that few tell them apart."""


def untiled(s: Shape) -> Shape:
    """The shape without tiles, leaf by leaf."""

    def plain(leaf: Shape) -> Shape:
        if leaf.layout is None or not leaf.layout.tiles:
            return leaf
        return leaf.with_layout(leaf.layout.replace(tiles=()))

    return s.map_leaves(plain)


def mean_the_same(before: Shape, after: Shape) -> bool:
    """Whether the elements of two shapes lie in one order, with their tiles as without."""
    size = prod(before.dims)
    if size != prod(after.dims) or before.dtype is not after.dtype:
        return False
    if before is after or not size:
        return True
    if size <= MOST_ASKED:
        flat = np.arange(size)
    else:
        inside = np.random.default_rng(size).integers(0, size, MOST_ASKED - 2)
        flat = np.concatenate([inside, [0, size - 1]])
    return bool((_places(before, flat) == _places(after, flat)).all())


def _places(s: Shape, flat: np.ndarray) -> np.ndarray:
    """Where elements lie, by their number in the order of the dimensions in memory."""
    sizes = physical_sizes(s)
    digits = _digits(flat, sizes)
    for what, argument in tiling_steps(sizes, s.layout):
        if what == "split":
            digits = _digits(_numbers(digits, sizes, flat), argument)
        elif what == "order":
            digits = [digits[k] for k in argument]
        sizes = argument if what != "order" else tuple([sizes[k] for k in argument])
    return _numbers(digits, sizes, flat)


def _digits(numbers: np.ndarray, sizes: tuple[int, ...]) -> list[np.ndarray]:
    return list(np.unravel_index(numbers, sizes)) if sizes else []


def _numbers(digits: list[np.ndarray], sizes: tuple[int, ...], like: np.ndarray) -> np.ndarray:
    numbers = np.zeros_like(like)
    for digit, size in zip(digits, sizes):
        numbers = numbers * size + digit
    return numbers
