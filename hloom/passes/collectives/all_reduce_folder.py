"""An all-reduce of an all-reduce as one among more devices.

The outer one adds up what the groups of the inner one made. Where these are other groups for each
of its members, together they are the groups of the one that takes the place of both; by a
reduction that does not count (minimum, and), they may overlap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.values.group_modes import CROSS_REPLICA_AND_PARTITION, Groups, group_mode
from hloom.ir.values.groups import ReplicaGroups
from hloom.passes.collectives.groups import (
    IDEMPOTENT,
    devices_of,
    in_mode,
    is_plain,
    module_of,
    positions,
    reduction_key,
    reduction_of,
    sole_reader,
    written_ids,
)
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.pass_ import register


def folded(inner: Groups, outer: Groups, counts: bool) -> Groups | None:
    """The groups of one all-reduce that means both; None where there are none. `counts`: no
    device may be reduced twice."""
    of = positions(inner)
    together: dict[int, tuple[int, ...]] = {}
    for group in outer:
        if any(d not in of for d in group):
            return None
        numbers = [of[d][0] for d in group]
        if counts and len(set(numbers)) < len(numbers):
            return None
        union = tuple(sorted(d for n in set(numbers) for d in inner[n]))
        together.update(dict.fromkeys(group, union))
    if any(together.get(d) != union for union in together.values() for d in union):
        return None
    return tuple(dict.fromkeys(together.values()))


@register
class AllReduceFolder(ComputationPass):
    """Replace all-reduce(all-reduce(x)) by one all-reduce among the devices of both."""

    name = "all-reduce-folder"

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        count = fired.total()
        for i in c.in_order():
            if i.opcode != "all-reduce" or i.operands[0].opcode != "all-reduce":
                continue
            groups = self.groups_of_both(i, i.operands[0])
            if groups is None:
                continue
            inner = i.operands[0]
            attrs = replace(i.attrs, replica_groups=groups)
            new = c.append(i.opcode, attrs, inner.operands, i.shape, i.opcode, i.called)
            new.copy_annotations(i)
            c.replace(i, new)
            c.erase(i)
            c.erase(inner)
            fired["folded"] += 1
        return [c] if fired.total() > count else []

    def groups_of_both(self, outer: Instruction, inner: Instruction) -> ReplicaGroups | None:
        if not is_plain(outer) or not is_plain(inner) or sole_reader(inner) is not outer:
            return None
        if reduction_of(outer) is None or reduction_key(outer) != reduction_key(inner):
            return None
        counts = reduction_of(outer) not in IDEMPOTENT
        inside, outside = devices_of(inner), devices_of(outer)
        if inside is not None and outside is not None:
            groups = folded(inside, outside, counts)
            return None if groups is None else in_mode(groups, outer.attrs, module_of(outer))
        mode = group_mode(outer.attrs)
        if mode != group_mode(inner.attrs) or mode == CROSS_REPLICA_AND_PARTITION:
            return None  # a group of one replica is as many devices as it has partitions
        groups = folded(written_ids(inner), written_ids(outer), counts)
        return None if groups is None else ReplicaGroups(groups)
