"""What is asked of the places of a store, and the cases in which they are looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hloom.kernel.proof.linear import Linear, Symbol
from hloom.kernel.proof.tiling import Box


class Unresolved(Exception):
    """Why the places that a store writes are not a box."""


class Demand(NamedTuple):
    """What is asked of the digits of a store.

    `grid` are the axes that have several steps. With `everywhere` no place may be among them that
    is not written, otherwise there may be more. Data that is the same for all steps moves all
    places alike if it is `fixed`. `loops` are those around the store that may have no iterations.
    """

    grid: set[Symbol]
    everywhere: bool
    fixed: bool
    places: Callable[[Linear, Demand, list[Linear]], list[Box]]
    """The boxes of a number itself where facts hold, in all cases."""
    loops: frozenset[Symbol] = frozenset()
    bounded: bool = False
    """Whether sums that facts bound are taken for all numbers between those bounds."""


Split = list[tuple[list[Linear], "Symbol | None", Linear]]


class InCases(Exception):
    """An offset has to be looked at in cases."""

    def __init__(self, split: Split) -> None:
        super().__init__()
        self.split = split
