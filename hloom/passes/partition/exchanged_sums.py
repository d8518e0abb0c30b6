"""Sums over what is cut, whose operands are exchanged instead.

Where a summed factor is cut, devices sum their parts, and the parts of the sum are put together.
If what is summed is less than the sum (features of images, of which a convolution makes more;
few rows, of which a gradient of large weights is made), its operands can be cut by another factor,
by an all-to-all or a gather: the result then comes out cut, each element on one device.

That what is cut is read whole later, and in how many places, is not known where it is chosen. So a
program is partitioned with such exchanges and without, and what receives less is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING

from hloom.passes.partition.factor_axes import Assignment, is_even

if TYPE_CHECKING:
    from hloom.passes.partition.assignment import Loops
    from hloom.passes.partition.partitioner import Walk


class SumExchange(Enum):
    """When operands of sums are exchanged, the results of which nothing is said."""

    NEVER = "never"
    LESS = "less"
    """Where it is less though all of the result were gathered again."""
    HOPEFUL = "hopeful"
    """Where it is less if the result is read as it is cut."""


def exchanged(walk: Walk, f: Loops, options: Iterable[Assignment]) -> Iterator[Assignment]:
    """Assignments with what cuts a summed factor cutting another one instead."""
    if walk.of.exchange is SumExchange.NEVER:
        return
    for option, k in [(option, k) for option in options for k in f.reduced if option.get(k)]:
        rest = {m: axes for m, axes in option.items() if m != k}
        for m in range(len(f.sizes)):
            cut = (*rest.get(m, ()), *option[k])
            if m not in f.reduced and is_even(walk, f, m, cut):
                yield {**rest, m: cut}
