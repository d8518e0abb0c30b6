"""Permutes that go round in a circle as two that do not.

Sends and receives along a circle all wait for each other; with the last edge of each circle in a
permute of its own, there is a first device.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.ir.values.group_modes import device_pairs, group_mode
from hloom.passes.collectives.groups import is_plain, module_of
from hloom.passes.collectives.own_entry import is_one_of
from hloom.passes.collectives.pairs import cycles
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register


@register
class CollectivePermuteCycleDecomposer(Expander):
    """Replace permutes with cycles by one of the edges back, one of the others, and a select."""

    name = "collective-permute-cycle-decomposer"
    opcodes = frozenset(["collective-permute"])

    threshold_in_bytes: int = 0
    """Smaller permutes stay as they are."""

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        module, mode = module_of(i), group_mode(i.attrs)
        replicas, partitions = module.replica_count, module.num_partitions
        if mode is None or i.attrs.slice_sizes or not is_plain(i) or replicas * partitions < 2:
            return None
        (x,), pairs = i.operands, i.attrs.source_target_pairs
        if x.shape.size_bytes < self.threshold_in_bytes:
            return None
        back = tuple((path[-1], path[0]) for path in cycles(pairs))
        if not back:
            return None
        rest = tuple(p for p in pairs if p not in back)
        first, second = (
            b.emit("collective-permute", x, channel_id=i.attrs.channel_id, source_target_pairs=p)
            for p in (back, rest)
        )
        targets = [t for _, t in device_pairs(back, mode, replicas, partitions)]
        here = b.spread(is_one_of(b, targets, replicas * partitions), x.shape.dims)
        return b.emit("select", here, first, second)
