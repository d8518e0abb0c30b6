"""An all-gather of which every device reads one shard: its own, or another device's.

Its own it had before. Another's it gets alone, by a permute, where no two want the same one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.ir.values.group_modes import group_mode
from hloom.passes.collectives.groups import devices_of, is_plain, module_of, positions
from hloom.passes.collectives.pairs import pairs_in_mode
from hloom.passes.collectives.shards import cut_of
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import register

Sources = tuple[tuple[int, int], ...]


@register
class AllGatherDynamicSliceSimplifier(ComputationPass):
    """Replace dynamic-slice(all-gather(x)) of one device's shard by x, or by a permute of x."""

    name = "all-gather-dynamic-slice-simplifier"
    breaks = (no_dead_code,)

    permuted: bool = True
    """Make permutes of what is another device's shard."""
    own: bool = True
    """Take away what is the device's own shard."""

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        count = fired.total()
        for i in c.in_order():
            gather = i.operands[0] if i.opcode == "dynamic-slice" else None
            if gather is None or gather.opcode != "all-gather" or not is_plain(gather):
                continue
            sources = shard_sources(i, gather)
            if sources is None:
                continue
            new = gather.operands[0]
            if any(s != t for s, t in sources):
                permute = self.permute(gather, sources)
                if permute is None:
                    continue
                new = permute
                fired["permuted"] += 1
            elif self.own:
                fired["own"] += 1
            else:
                continue
            new = as_shaped(i, new)
            c.replace(i, new)
            c.erase(i)
            if not gather.users and not gather.is_root:
                c.erase(gather)
        return [c] if fired.total() > count else []

    def permute(self, gather: Instruction, sources: Sources) -> Instruction | None:
        if not self.permuted or len({s for s, _ in sources}) < len(sources):
            return None
        a, c = gather.attrs, gather.parent
        attrs = OPS["collective-permute"].attrs(channel_id=a.channel_id)
        pairs = pairs_in_mode(sources, group_mode(attrs), module_of(gather))
        if pairs is None:
            return None
        attrs = OPS["collective-permute"].attrs(channel_id=a.channel_id, source_target_pairs=pairs)
        x = gather.operands[0]
        new = c.append("collective-permute", attrs, (x,), x.shape, "collective-permute")
        new.copy_annotations(gather)
        new.sharding = None
        return new


def as_shaped(i: Instruction, new: Instruction) -> Instruction:
    """A value in the very shape of the one it takes the place of, with its sharding."""
    if new.shape is i.shape and (i.sharding is None or new.sharding == i.sharding):
        return new
    copied = i.parent.append("copy", OPS["copy"].attrs(), (new,), i.shape, "copy")
    copied.metadata, copied.sharding = i.metadata, i.sharding
    return copied


def shard_sources(i: Instruction, gather: Instruction) -> Sources | None:
    """For each device, whose operand it cuts out of the gathered array: pairs of source, target."""
    groups, cut = devices_of(gather), cut_of(i)
    if groups is None or cut is None or cut.dimension != gather.attrs.dimensions[0]:
        return None
    if i.shape.dims != gather.operands[0].shape.dims:
        return None
    place = positions(groups)
    return tuple((groups[place[d][0]][s], d) for d, s in enumerate(cut.shard))
