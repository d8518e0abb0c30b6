"""An all-reduce of which every device reads its own shard is a reduce-scatter.

It moves half the bytes, and keeps only a shard. The offsets of the slices are read off for every
device, so any expression of the ids will do, and shards in any order: the groups are written in
that order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.ir.values.groups import AnyGroups
from hloom.passes.collectives.groups import devices_of, in_mode, is_plain, module_of
from hloom.passes.collectives.shards import Cut, cut_of, in_shard_order
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import register


@register
class ReduceScatterCreator(ComputationPass):
    """Replace dynamic-slice(all-reduce(x)) at each device's own shard by reduce-scatter(x)."""

    name = "reduce-scatter-creator"
    breaks = (no_dead_code,)

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        count = fired.total()
        for i in c.in_order():
            if i.opcode == "all-reduce" and is_plain(i) and not i.is_root:
                cut = self.scattered(i)
                if cut is not None:
                    scatter(i, *cut)
                    fired["created"] += 1
        return [c] if fired.total() > count else []

    def scattered(self, i: Instruction) -> tuple[Cut, AnyGroups] | None:
        """What all readers cut out of an all-reduce, and the groups in the order of shards."""
        groups = devices_of(i)
        if groups is None or not i.users or any(u.opcode != "dynamic-slice" for u in i.users):
            return None
        cuts = {cut_of(u) if u.operands[0] is i else None for u in i.users}
        cut = cuts.pop()
        if cuts or cut is None:
            return None
        ordered = in_shard_order(groups, cut)
        if ordered is None:
            return None
        if frozenset(ordered) == frozenset(groups):
            return cut, i.attrs.replica_groups
        written = in_mode(ordered, i.attrs, module_of(i))
        return None if written is None else (cut, written)


def scatter(i: Instruction, cut: Cut, groups: AnyGroups) -> None:
    """Put a reduce-scatter in the place of an all-reduce and the slices of it."""
    c, readers = i.parent, list(i.users)
    attrs = OPS["reduce-scatter"].attrs(
        channel_id=i.attrs.channel_id,
        replica_groups=groups,
        use_global_device_ids=i.attrs.use_global_device_ids,
        dimensions=(cut.dimension,),
        mode=i.attrs.mode,
    )
    new = c.append(
        "reduce-scatter", attrs, i.operands, readers[0].shape, "reduce-scatter", i.called
    )
    new.copy_annotations(i)
    new.sharding = readers[0].sharding
    for reader in readers:
        c.replace(reader, new)
        c.erase(reader)
    c.erase(i)
