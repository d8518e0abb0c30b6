"""Whether a bitcast between shapes in tiles gives every element the place that it has without them.

Programs of other machines state tiles, in which nothing lies here: arrays are kept in the order of
their dimensions alone. A bitcast means memory, so it is kept where tiles on both sides put the
elements in one order. That is asked of the places themselves, of a sample in large arrays.
"""

from __future__ import annotations

from math import prod

import numpy as np

from hloom.types.layout import COMBINED
from hloom.types.shape import Shape

MOST_ASKED = 4000
"""Elements whose places are compared; places are sums of digits, so that few tell them apart."""


def is_tiled(s: Shape) -> bool:
    """Whether a layout states tiles."""
    return s.is_array and s.layout is not None and bool(s.layout.tiles)


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
    if size <= MOST_ASKED:
        flat = np.arange(size)
    else:
        inside = np.random.default_rng(size).integers(0, size, MOST_ASKED - 2)
        flat = np.concatenate([inside, [0, size - 1]])
    places = _places(before, flat), _places(after, flat)
    return all(p is not None for p in places) and bool((places[0] == places[1]).all())


def _places(s: Shape, flat: np.ndarray) -> np.ndarray | None:
    """Where elements lie, by their number in the order of the dimensions; None where a tile joins
    dimensions."""
    order = range(s.rank) if s.layout is None else reversed(s.layout.minor_to_major)
    sizes = [s.dims[d] for d in order]
    digits = list(np.unravel_index(flat, sizes)) if sizes else []
    for tile in s.layout.tiles if s.layout is not None else ():
        first = len(sizes) - len(tile)
        if first < 0 or COMBINED in tile:
            return None
        tail = list(zip(digits[first:], sizes[first:], tile))
        digits = [*digits[:first], *[x // t for x, _, t in tail], *[x % t for x, _, t in tail]]
        sizes = [*sizes[:first], *[-(-n // t) for _, n, t in tail], *tile]
    places = np.zeros_like(flat)
    for digit, size in zip(digits, sizes):
        places = places * size + digit
    return places
