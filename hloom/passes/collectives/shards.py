"""Which shard of an array each device cuts out of it: the offset of a dynamic-slice, read off for
every device."""

from __future__ import annotations

from typing import NamedTuple

from hloom.analysis.device_values import values_on_devices
from hloom.ir.instruction import Instruction
from hloom.ir.values.group_modes import Groups
from hloom.passes.collectives.groups import group_size


class Cut(NamedTuple):
    """A dynamic-slice along one dimension, into equal shards."""

    dimension: int
    shards: int
    shard: tuple[int, ...]
    """Which one each device takes, by global id."""


def cut_of(i: Instruction) -> Cut | None:
    """What a dynamic-slice cuts, where it is one whole shard on every device."""
    if i.opcode != "dynamic-slice" or i.has_control_edges or i.shape.is_dynamic:
        return None
    x, *starts = i.operands
    cut = [k for k, (n, of) in enumerate(zip(i.shape.dims, x.shape.dims)) if n != of]
    if len(cut) != 1:
        return None
    (d,) = cut
    size, whole = i.shape.dims[d], x.shape.dims[d]
    if not size or whole % size or len(starts) != x.shape.rank:
        return None
    offsets = values_on_devices(starts[d])
    if offsets is None or (offsets.astype(object) % size).any():
        return None
    shard = tuple(int(o) // size for o in offsets)
    if not all(0 <= s < whole // size for s in shard):
        return None  # clamped: two devices have the same
    return Cut(d, whole // size, shard)


def in_shard_order(groups: Groups, cut: Cut) -> Groups | None:
    """The groups, each in the order of its members' shards; None where two members take the same
    one, or not each shard has a taker."""
    if group_size(groups) != cut.shards:
        return None
    ordered = tuple(tuple(sorted(g, key=lambda d: cut.shard[d])) for g in groups)
    if any([cut.shard[d] for d in g] != list(range(cut.shards)) for g in ordered):
        return None
    return ordered
