"""Values of which a program says nothing, cut further than propagation says.

Propagation cuts a dimension evenly or not at all, and gives up where elements move to a size that
the devices do not divide: what follows is then cut along other axes only, or whole. The partitioner
cuts unevenly as well. Where values are *open*, their shardings say how they are cut at least, and
`refined` lets them stay as they were computed along the axes that are left.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hloom.ir.instruction import Instruction
from hloom.passes.partition.tiling import Tiling


@dataclass
class OpenValues:
    """The open values of a module that is partitioned, and how they came to stand."""

    values: set[Instruction]
    stands: dict[Instruction, Tiling | None] = field(default_factory=dict)
    """None: in several ways."""

    def note(self, i: Instruction, t: Tiling) -> None:
        """Keep how an array stands, which is computed once for each way its operands stand."""
        self.stands[i] = t if self.stands.get(i, t) == t else None


def refined(want: Tiling, have: Tiling) -> Tiling:
    """What is asked for at least, cut further as a value was computed along axes that it leaves."""
    dims = list(want.dims)
    for d, (asked, own) in enumerate(zip(want.dims, have.dims, strict=True)):
        if own[: len(asked)] == asked and want.used.isdisjoint(own[len(asked) :]):
            dims[d] = own
    return Tiling(tuple(dims), manual=want.manual)
