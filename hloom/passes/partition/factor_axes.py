"""Axes along which the factors of an operation are cut, of the tilings of its values and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hloom.passes.partition.tiling import Axes, Tiling

if TYPE_CHECKING:
    from hloom.passes.partition.assignment import Loops
    from hloom.passes.partition.partitioner import Walk

Assignment = dict[int, Axes]
"""The axes along which factors are cut."""
Dims = tuple[tuple[int, ...], ...]
"""For each dimension of a value its factors, the major one first."""


def pulled(walk: Walk, f: Loops, dims: Dims, t: Tiling) -> Assignment:
    """The axes of a value's dimensions as axes of the factors, as far as they can be."""
    assignment: Assignment = {}
    for numbers, axes in zip(dims, t.dims, strict=True):
        if len(numbers) == 1:
            if axes and numbers[0] not in f.whole:
                assignment[numbers[0]] = axes
            continue
        left = list(axes)
        for k in numbers:
            if k in f.whole:
                break
            own: list[int] = []
            tiles = 1
            while left and f.sizes[k] % (tiles * walk.mesh.sizes[left[0]]) == 0:
                tiles *= walk.mesh.sizes[left[0]]
                own.append(left.pop(0))
            if own:
                assignment[k] = tuple(own)
            if tiles != f.sizes[k]:
                break
    return assignment


def pushed(f: Loops, dims: Dims, axes: Assignment) -> Tiling:
    """The tiling of a value under an assignment."""
    return Tiling(tuple([tuple([a for k in factors for a in axes.get(k, ())]) for factors in dims]))


def settled(walk: Walk, f: Loops, axes: Assignment) -> Assignment:
    """An assignment less what cannot be: a minor factor of a dimension is cut only where those
    before it are cut into single elements, and evenly."""
    assignment = dict(axes)
    for k, halos in f.halos.items():
        tiles = walk.mesh.count(assignment.get(k, ()))
        if tiles > 1 and any(h.need(tiles) is None for h in halos):
            del assignment[k]
    # What goes from one value may leave a factor of another without those before it.
    while _dropped(walk, f, assignment):
        pass
    return assignment


def _dropped(walk: Walk, f: Loops, assignment: Assignment) -> bool:
    """Whether some factor was cut in the middle of a dimension, and now is not any more."""
    count = len(assignment)
    for dims in (*f.operands, *f.results):
        for numbers in dims:
            if len(numbers) < 2:
                continue
            is_open = True
            for k in numbers:
                tiles = walk.mesh.count(assignment.get(k, ()))
                if tiles > 1 and (not is_open or f.sizes[k] % tiles):
                    del assignment[k]
                    tiles = 1
                is_open = is_open and tiles == f.sizes[k]
    return len(assignment) < count


def merged(first: Assignment, others: Iterable[Assignment]) -> Assignment:
    """An assignment, and what of the others goes with it."""
    together = dict(first)
    used = {a for axes in together.values() for a in axes}
    for other in others:
        for k, axes in other.items():
            have = together.get(k, ())
            if axes[: len(have)] != have:
                continue
            more: list[int] = []
            for a in axes[len(have) :]:
                if a in used:
                    break
                more.append(a)
            if more:
                together[k] = (*have, *more)
                used.update(more)
    return together


def is_even(walk: Walk, f: Loops, k: int, axes: Axes) -> bool:
    """Whether a factor can be cut along axes into equal parts that need nothing of one another."""
    is_free = k not in f.whole and k not in f.halos
    return is_free and f.sizes[k] % walk.mesh.count(axes) == 0
