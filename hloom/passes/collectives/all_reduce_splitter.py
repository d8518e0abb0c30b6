"""An all-reduce of which several devices cut the same shard as two, on less data.

Where each shard has m takers in a group, the devices first reduce in m smaller groups, which have
each shard once, and then the takers of one shard reduce that. With `reduce-scatter-creator` after
it the first one is a reduce-scatter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.values.group_modes import Groups
from hloom.ir.values.groups import ReplicaGroups
from hloom.passes.collectives.groups import (
    devices_of,
    in_mode,
    is_plain,
    module_of,
    reduction_of,
    sole_reader,
)
from hloom.passes.collectives.shards import Cut, cut_of
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.pass_ import register


@register
class AllReduceSplitter(ComputationPass):
    """Replace dynamic-slice(all-reduce(x)) of shards that several devices take by
    all-reduce(dynamic-slice(all-reduce(x))) in smaller groups."""

    name = "all-reduce-splitter"

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        count = fired.total()
        for i in c.in_order():
            if i.opcode != "all-reduce" or not is_plain(i) or reduction_of(i) is None:
                continue
            reader, groups = sole_reader(i), devices_of(i)
            cut = cut_of(reader) if reader is not None and reader.operands[0] is i else None
            if reader is None or cut is None or groups is None:
                continue
            written = [in_mode(g, i.attrs, module_of(i)) for g in split(groups, cut)]
            if len(written) == 2 and written[0] is not None and written[1] is not None:
                put_between(i, reader, written[0], written[1])
                fired["split"] += 1
        return [c] if fired.total() > count else []


def split(groups: Groups, cut: Cut) -> list[Groups]:
    """Groups that have each shard once, and groups of the takers of one shard; nothing where
    shards have not all the same number of takers, of at least two."""
    first: list[tuple[int, ...]] = []
    second: list[tuple[int, ...]] = []
    for group in groups:
        takers = [[d for d in group if cut.shard[d] == s] for s in range(cut.shards)]
        counts = {len(t) for t in takers}
        if len(counts) != 1 or counts.pop() < 2:
            return []
        first += [tuple(sorted(row)) for row in zip(*takers, strict=True)]
        second += [tuple(t) for t in takers]
    return [tuple(first), tuple(second)]


def put_between(
    i: Instruction, reader: Instruction, first: ReplicaGroups, second: ReplicaGroups
) -> None:
    """Reduce before the slice in some groups, behind it in others."""
    c = i.parent
    before = c.append(
        i.opcode, replace(i.attrs, replica_groups=first), i.operands, i.shape, i.opcode, i.called
    )
    before.copy_annotations(i)
    cut = c.append(
        reader.opcode, reader.attrs, (before, *reader.operands[1:]), reader.shape, reader.opcode
    )
    cut.copy_annotations(reader)
    after = c.append(
        i.opcode, replace(i.attrs, replica_groups=second), (cut,), reader.shape, i.opcode, i.called
    )
    after.copy_annotations(i)
    after.sharding = reader.sharding
    c.replace(reader, after)
    c.erase(reader)
    c.erase(i)
