"""Which steps of a computation may be under way at once: decided before anything has a place.

Steps of branches that run beside each other are alive together, whatever their order in time says:
values of theirs get places of their own, and nothing of one is overwritten by the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Branches:
    """The branches of one computation; one after another they are a valid order too."""

    of: Mapping[str, int]
    """The branch of a step, by the name of its instruction."""
    beside: tuple[int, ...]
    """For each branch the bits of those that may be under way with it."""

    def with_any(self, touched: int) -> int:
        """The bits of the branches that may be under way with any of these."""
        bits, k = 0, 0
        while touched:
            if touched & 1:
                bits |= self.beside[k]
            touched >>= 1
            k += 1
        return bits


BranchPlan = Mapping[str, Branches]
"""By the name of a computation; one that is not there runs one step after another."""
