"""How an array is cut along the axes of a mesh: what shardings become inside the partitioner."""

from __future__ import annotations

from dataclasses import dataclass, replace

Axes = tuple[int, ...]
"""Axes of a mesh by number, the most major first."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """The axes that each dimension is cut along; the others hold copies.

    Tiles are as large as the dimension divided by their number, rounded up; what lies beyond the
    end of the dimension may be anything. Along `partial` axes devices hold parts that `reduction`
    (an opcode) puts together.
    """

    dims: tuple[Axes, ...]
    partial: Axes = ()
    reduction: str = ""
    manual: Axes = ()
    """Axes along which the program itself cut the value: its shape is that of a part there, and
    every device has its own. Said where computations hand values over; a `TiledValue` says it
    once for all its tilings."""

    @staticmethod
    def replicated(rank: int) -> Tiling:
        return Tiling(((),) * rank)

    @property
    def is_replicated(self) -> bool:
        """Whether every device holds the whole value."""
        return not self.partial and not any(self.dims)

    @property
    def used(self) -> frozenset[int]:
        """The axes along which devices do not hold the same."""
        return frozenset([a for axes in self.dims for a in axes] + list(self.partial))

    def with_dim(self, dimension: int, axes: Axes) -> Tiling:
        dims = list(self.dims)
        dims[dimension] = axes
        return replace(self, dims=tuple(dims))

    def whole(self) -> Tiling:
        """The same without parts that are still to be put together."""
        return Tiling(self.dims) if self.partial else self

    def without(self, axes: frozenset[int]) -> Tiling:
        """Every dimension cut along the axes in front of the first of these only."""
        if axes.isdisjoint(self.used):
            return self
        return replace(self, dims=tuple([until(own, axes) for own in self.dims]))

    def with_manual(self, manual: Axes) -> Tiling:
        return self if self.manual == manual else replace(self, manual=manual)


def until(own: Axes, stop: frozenset[int]) -> Axes:
    """The axes in front of the first one to stop at."""
    return own[: next((k for k, a in enumerate(own) if a in stop), len(own))]


def common_prefix(a: Axes, b: Axes) -> int:
    """How many axes two lists begin with together."""
    count = 0
    for x, y in zip(a, b):
        if x != y:
            break
        count += 1
    return count
