"""Equal collectives once, where what they bring is not kept for long on that account.

Two gathers of one array far from each other may be meant: in between its memory is free. They are
merged when few instructions stand between the last reader of the first and the second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.passes.collectives.groups import group_key, is_plain
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.pass_ import register


@register
class ScheduleAwareCollectiveCSE(ComputationPass):
    """Merge equal all-gathers, and equal permutes, that are near to each other."""

    name = "schedule-aware-collective-cse"

    distance_threshold: int = 100
    """So many instructions may stand between readers of the first and the second."""
    for_replicas: bool = False
    """Merge those among replicas (without a channel) instead of those among partitions."""

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        place = {i: n for n, i in enumerate(c.in_order())}
        first: dict[Hashable, Instruction] = {}
        last: dict[Instruction, int] = {}
        count = fired.total()
        for i in c.in_order():
            key = self.key(i)
            if key is None:
                continue
            kept = first.get(key)
            if kept is None or place[i] - last[kept] > self.distance_threshold:
                first[key], last[i] = i, last_read(i, place)
                continue
            last[kept] = max(last[kept], last_read(i, place))
            c.replace(i, kept)
            c.erase(i)
            fired["merged"] += 1
        return [c] if fired.total() > count else []

    def key(self, i: Instruction) -> Hashable | None:
        """Equal for collectives that bring the same; None for what stays."""
        if i.opcode not in ("all-gather", "collective-permute") or not is_plain(i):
            return None
        if (i.attrs.channel_id is None) != self.for_replicas:
            return None
        what = (i.opcode, i.operands, i.shape, i.sharding, i.backend_config)
        if i.opcode == "all-gather":
            return (*what, i.attrs.dimensions, group_key(i))
        if i.attrs.slice_sizes:
            return None
        return (*what, frozenset(i.attrs.source_target_pairs))


def last_read(i: Instruction, place: dict[Instruction, int]) -> int:
    """Where the last reader of a value stands; the end for what is returned."""
    return len(place) if i.is_root else max((place[u] for u in i.users), default=place[i])
