"""Small all-reduces as an all-gather and a reduction on each device: one exchange, not two.

The operands are folded in the order of the group, as the all-reduce does it.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import devices_of, group_size, is_plain, reduction_of
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.shape import shape


@register
class AllReduceDecomposer(Expander):
    """Replace small all-reduces by an all-gather and operations on what it gathers."""

    name = "all-reduce-decomposer"
    opcodes = frozenset(["all-reduce"])

    most_bytes: int = 8192
    """Of the operand."""
    most_devices: int = 16
    """In a group."""

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        groups, opcode = devices_of(i), reduction_of(i)
        count = group_size(groups) if groups is not None else None
        if not is_plain(i) or opcode is None or count is None or count > self.most_devices:
            return None
        (x,), a = i.operands, i.attrs
        if x.shape.size_bytes > self.most_bytes or x.shape.dtype is not i.shape.dtype:
            return None
        dims = x.shape.dims
        gathered = b.emit(
            "all-gather",
            b.reshaped(x, (1, *dims)),
            shape=shape(x.shape.dtype, (count, *dims)),
            channel_id=a.channel_id,
            replica_groups=a.replica_groups,
            use_global_device_ids=a.use_global_device_ids,
            dimensions=(0,),
        )
        parts = [b.reshaped(b.sliced(gathered, 0, k, k + 1), dims) for k in range(count)]
        total = parts[0]
        for part in parts[1:]:
            total = b.emit(opcode, total, part)
        return total
