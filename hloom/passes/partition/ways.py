"""A program partitioned in several ways, of which one is kept.

What a device receives decides, and within a margin what it has to do: a way that saves a few bytes
by letting all devices multiply alike is worse than one that does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hloom.analysis.communication import communications
from hloom.analysis.cost import module_cost
from hloom.ir.module import Module
from hloom.passes.partition.exchanged_sums import SumExchange
from hloom.passes.partition.work_price import multiply_bytes

if TYPE_CHECKING:
    from hloom.passes.partition.partitioner import Partitioner

NEAR = 1.25
"""Of the way by which a device receives least so much may be received to do less work instead."""


@dataclass(frozen=True)
class Way:
    """The program that each device runs, and what made it."""

    module: Module
    run: Partitioner
    fired: Counter[str]

    @cached_property
    def received(self) -> float:
        """Bytes of a device."""
        return sum([r.total_bytes for r in communications(self.module)])

    @cached_property
    def price(self) -> float:
        """The same, and the work of a device: two operations are one multiply-add."""
        return self.received + multiply_bytes() / 2 * module_cost(self.module).total.flops


def cheapest(ways: Sequence[Way]) -> Way:
    """The cheapest of those by which a device receives hardly more than by any; of ways that cost
    the same the one without exchanges."""
    if len(ways) == 1:
        return ways[0]
    most = NEAR * min([w.received for w in ways])
    near = [w for w in ways if w.received <= most]
    return min(near, key=lambda w: (w.price, w.run.exchange is not SumExchange.NEVER))
