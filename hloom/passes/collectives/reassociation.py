"""`op(c(x), c(y))` as `c(op(x, y))`, where the collective c reduces by op: one collective for two.

What chains of such operations become is looked at again, so that a sum of many all-reduces is one
all-reduce of a sum. Sums of floats are rounded in another order, as XLA does it too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import ClassVar

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import (
    REDUCTIONS,
    group_key,
    is_plain,
    reduction_of,
    sole_reader,
)
from hloom.passes.computation_pass import ComputationPass


class Reassociation(ComputationPass):
    """Join collectives of one opcode whose results are reduced by the same operation."""

    opcode: ClassVar[str]

    def key(self, i: Instruction) -> Hashable:
        """What both must share."""
        return (group_key(i), i.operands[0].shape.dims, i.sharding, i.backend_config)

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        count = fired.total()
        for i in c.in_order():
            if i.opcode in REDUCTIONS and self.joins(i):
                join(i)
                fired["joined"] += 1
        return [c] if fired.total() > count else []

    def joins(self, i: Instruction) -> bool:
        """Whether two collectives meet in `i` whose results nothing else reads."""
        x, y = i.operands
        if i.has_control_edges or x.opcode != self.opcode or y.opcode != self.opcode:
            return False
        if any(not is_plain(o) or reduction_of(o) != i.opcode for o in (x, y)):
            return False
        if any(o.shape.dtype is not i.shape.dtype for o in (x, y)):
            return False
        return all(sole_reader(o) is i for o in (x, y)) and self.key(x) == self.key(y)


def join(i: Instruction) -> Instruction:
    """Put the collective of `i.opcode` of both operands in the place of `i`."""
    c, (x, y) = i.parent, i.operands
    inside = c.append(
        i.opcode, i.attrs, (x.operands[0], y.operands[0]), x.operands[0].shape, i.opcode
    )
    inside.metadata, inside.frontend_attributes = i.metadata, i.frontend_attributes
    new = c.append(x.opcode, x.attrs, (inside,), i.shape, x.opcode, x.called)
    new.copy_annotations(x)
    new.sharding = i.sharding
    c.replace(i, new)
    c.erase(i)
    for old in dict.fromkeys((x, y)):
        c.erase(old)
    return new
