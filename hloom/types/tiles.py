"""The order in memory that tiles give elements, as steps on the dimensions of an array.

Each level of tiles cuts the innermost dimensions of what the level before left into blocks, after
padding them to whole ones, and puts what counts blocks outside of what counts inside a block.
"""

from __future__ import annotations

from typing import Literal

from hloom.types.layout import COMBINED, Layout
from hloom.types.shape import Shape

Step = tuple[Literal["pad", "split", "order"], tuple[int, ...]]
"""Zeros behind up to these sizes; the same elements in these sizes; dimensions in this order."""


def is_tiled(s: Shape) -> bool:
    """Whether a layout states tiles."""
    return s.is_array and s.layout is not None and bool(s.layout.tiles)


def physical_sizes(s: Shape) -> tuple[int, ...]:
    """The sizes of the dimensions from the slowest in memory to the fastest."""
    return tuple([s.dims[d] for d in physical_dimensions(s)])


def physical_dimensions(s: Shape) -> tuple[int, ...]:
    """The dimensions from the slowest in memory to the fastest."""
    if s.layout is None:
        return tuple(range(s.rank))
    return tuple(reversed(s.layout.minor_to_major))


def tiling_steps(sizes: tuple[int, ...], layout: Layout | None) -> list[Step]:
    """What lays out an array whose physical dimensions have these sizes; a tile of more
    dimensions than there are finds dimensions of one outside."""
    steps: list[Step] = []
    now = list(sizes)
    for tile in layout.tiles if layout is not None else ():
        if len(tile) > len(now):
            now = [1] * (len(tile) - len(now)) + now
            steps.append(("split", tuple(now)))
        for position in range(len(tile) - 1):
            if tile[position] == COMBINED:
                at = len(now) - len(tile) + position
                now[at : at + 2] = [now[at] * now[at + 1]]
                steps.append(("split", tuple(now)))
        parts = [t for t in tile if t != COMBINED]
        head, tail = now[: len(now) - len(parts)], now[len(now) - len(parts) :]
        counts = [-(-n // t) if t else 0 for n, t in zip(tail, parts)]
        padded = [c * t for c, t in zip(counts, parts)]
        if padded != tail:
            steps.append(("pad", tuple(head + padded)))
        split = head + [v for pair in zip(counts, parts) for v in pair]
        steps.append(("split", tuple(split)))
        outer = [len(head) + 2 * k for k in range(len(parts))]
        order = [*range(len(head)), *outer, *(k + 1 for k in outer)]
        steps.append(("order", tuple(order)))
        now = head + counts + parts
    return steps


def sizes_on_the_way(sizes: tuple[int, ...], steps: list[Step]) -> list[tuple[int, ...]]:
    """The sizes before the first step and after each."""
    forms = [sizes]
    for what, argument in steps:
        last = forms[-1]
        forms.append(tuple([last[k] for k in argument]) if what == "order" else argument)
    return forms
