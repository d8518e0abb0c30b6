"""Reduce-scatters for machines that have none: each device cuts its part out of an all-reduce."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import devices_of, is_plain, keeps_layouts
from hloom.passes.collectives.own_entry import place_in_group
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.dtype import S32


@register
class ReduceScatterDecomposer(Expander):
    """Replace reduce-scatters by an all-reduce and a dynamic-slice."""

    name = "reduce-scatter-decomposer"
    opcodes = frozenset(["reduce-scatter"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        groups = devices_of(i)
        if groups is None or not is_plain(i):
            return None
        (x,), (d,), a = i.operands, i.attrs.dimensions, i.attrs
        reduced = b.emit(
            "all-reduce",
            x,
            called=i.called,
            channel_id=a.channel_id,
            replica_groups=a.replica_groups,
            use_global_device_ids=a.use_global_device_ids,
            mode=a.mode,
            constrain_layout=keeps_layouts(b.module),
        )
        starts = [b.scalar(0, S32)] * x.shape.rank
        starts[d] = place_in_group(b, groups, i.shape.dims[d])
        return b.emit("dynamic-slice", reduced, *starts, dynamic_slice_sizes=i.shape.dims)
