"""All-reduces in stages along the network, after BlueConnect (Cho et al., 2019).

Devices of one host, near to each other, reduce-scatter; each shard is then reduced among hosts,
over the slow links only once; and the hosts gather the shards again.
"""

from __future__ import annotations

from math import prod

from hloom.ir.instruction import Instruction
from hloom.ir.values.group_modes import Groups
from hloom.passes.collectives.groups import (
    devices_of,
    group_size,
    in_mode,
    is_plain,
    module_of,
    reduction_of,
)
from hloom.passes.collectives.moving import again
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.shape import shape


@register
class AllReduceBlueConnect(Expander):
    """Replace all-reduces over several hosts by reduce-scatter, all-reduce and all-gather."""

    name = "all-reduce-blueconnect"
    opcodes = frozenset(["all-reduce"])

    num_devices_per_host: int = 8
    """Devices of consecutive ids that are near to each other."""

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        groups = devices_of(i) if is_plain(i) and reduction_of(i) is not None else None
        if groups is None or i.operands[0].shape.dtype is not i.shape.dtype:
            return None
        stages = staged(groups, self.num_devices_per_host)
        if stages is None:
            return None
        (x,), attrs = i.operands, i.attrs
        inside, across = (in_mode(g, attrs, module_of(i)) for g in stages)
        local, size = len(stages[0][0]), prod(x.shape.dims)
        if inside is None or across is None or size % local or not size:
            return None
        row = b.reshaped(x, (size,))
        shard, whole = (shape(x.shape.dtype, (n,)) for n in (size // local, size))
        shared = {
            "channel_id": attrs.channel_id,
            "use_global_device_ids": attrs.use_global_device_ids,
            "replica_groups": inside,
            "dimensions": (0,),
        }
        scattered = b.emit("reduce-scatter", row, called=i.called, shape=shard, **shared)
        reduced = again(b, i, scattered, shard, replica_groups=across)
        gathered = b.emit("all-gather", reduced, shape=whole, **shared)
        return b.reshaped(gathered, x.shape.dims)


def staged(groups: Groups, per_host: int) -> tuple[Groups, Groups] | None:
    """Groups inside of hosts, and across them; None where that are no two stages, or hosts have
    not all the same number of members."""
    inside: list[tuple[int, ...]] = []
    across: list[tuple[int, ...]] = []
    for group in groups:
        hosts: dict[int, list[int]] = {}
        for d in group:
            hosts.setdefault(d // max(per_host, 1), []).append(d)
        members = [tuple(h) for h in hosts.values()]
        count = group_size(members)
        if count is None or count < 2 or len(members) < 2:
            return None
        inside += members
        across += zip(*members, strict=True)
    return (tuple(inside), tuple(across)) if group_size(inside) is not None else None
