"""Shards of a gathered and padded array: each device is sent the one that it reads.

A halo at the border is written so: gather, pad, and cut one shard out a little beside one's own.
Where every device cuts exactly one device's shard, or padding, a permute brings it.
"""

from __future__ import annotations

from hloom.analysis.device_values import values_on_devices
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.ir.values.group_modes import group_mode
from hloom.ir.values.padding import PaddingDimension
from hloom.passes.collectives.groups import devices_of, is_plain, module_of, positions
from hloom.passes.collectives.moving import CollectiveMotion, CollectiveMove
from hloom.passes.collectives.own_entry import is_one_of
from hloom.passes.collectives.pairs import Pairs, pairs_in_mode
from hloom.passes.expand.expansion import Expansion
from hloom.passes.pass_ import register


@register
class AllGatherPadDsSimplifier(CollectiveMotion):
    """Replace dynamic-slice(pad(all-gather(x))) of one shard by select(permute(x), padding)."""

    name = "all-gather-pad-ds-simplifier"
    opcodes = frozenset(["dynamic-slice"])
    what = "permuted"

    def move(self, b: Expansion, i: Instruction) -> CollectiveMove | None:
        pad = i.operands[0]
        if pad.opcode != "pad" or pad.has_control_edges or i.has_control_edges:
            return None
        gather, filling = pad.operands
        if gather.opcode != "all-gather" or not is_plain(gather):
            return None
        sources = padded_sources(i, pad, gather)
        if sources is None:
            return None
        (x,), channel = gather.operands, gather.attrs.channel_id
        attrs = OPS["collective-permute"].attrs(channel_id=channel)
        pairs = pairs_in_mode(sources, group_mode(attrs), module_of(gather))
        if pairs is None:
            return None
        new = b.emit("collective-permute", x, channel_id=channel, source_target_pairs=pairs)
        count = sum([len(g) for g in devices_of(gather) or ()])
        here = is_one_of(b, [t for _, t in sources], count)
        dims = i.shape.dims
        chosen = b.emit("select", b.spread(here, dims), new, b.spread(filling, dims))
        return CollectiveMove(i, chosen, [pad, gather])


def padded_sources(i: Instruction, pad: Instruction, gather: Instruction) -> Pairs | None:
    """Pairs of whose shard which device cuts out; a device that cuts padding is in none of them.
    None where some device cuts anything else, or two cut the same shard."""
    groups, size = devices_of(gather), gather.operands[0].shape.dims
    (d,) = gather.attrs.dimensions
    edges = pad.attrs.padding.dimensions
    if groups is None or i.shape.dims != size or i.shape.is_dynamic:
        return None
    if any(k != d and e != PaddingDimension(0, 0) for k, e in enumerate(edges)):
        return None
    low, high = edges[d].edge_padding_low, edges[d].edge_padding_high
    if edges[d].interior_padding or low < 0 or high < 0:
        return None
    offsets = values_on_devices(i.operands[1 + d])
    if offsets is None or not size[d]:
        return None
    place, pairs = positions(groups), []
    for device, offset in enumerate(offsets):
        # A start beyond the last one that is possible means the last one.
        start = min(max(int(offset), 0), pad.shape.dims[d] - size[d]) - low
        if start % size[d]:
            return None
        shard, group = start // size[d], groups[place[device][0]]
        if 0 <= shard < len(group):
            pairs.append((group[shard], device))
        elif -size[d] < start < gather.shape.dims[d]:
            return None
    return tuple(pairs) if pairs and len({s for s, _ in pairs}) == len(pairs) else None
