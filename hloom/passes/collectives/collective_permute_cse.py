"""Permutes that send the same elements to the same devices, once.

Two permutes by the same pairs of one array, or of slices of it: what one of them brings is a slice
of what the other one brings, if that sends at least the same elements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.values.group_modes import group_mode
from hloom.passes.collectives.groups import is_plain
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.expand.expansion import Expansion, put_in_place
from hloom.passes.facts import no_dead_code
from hloom.passes.pass_ import register

Region = tuple[tuple[int, int], ...]
"""From where to where, in each dimension."""


@register
class CollectivePermuteCSE(ComputationPass):
    """Replace a permute of elements that another one sends, too, by a slice of that one."""

    name = "collective-permute-cse"
    breaks = (no_dead_code,)

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        by_key: dict[Hashable, list[tuple[Region, Instruction]]] = {}
        for i in c.in_order():
            if i.opcode != "collective-permute" or i.attrs.slice_sizes or not is_plain(i):
                continue
            x, region = source_of(i.operands[0])
            pairs = frozenset(i.attrs.source_target_pairs)
            key = (x, pairs, group_mode(i.attrs), i.sharding, i.backend_config)
            by_key.setdefault(key, []).append((region, i))
        count = fired.total()
        for alike in by_key.values():
            # The largest first: what lies in another region lies in one that is kept.
            alike.sort(key=lambda entry: -entry[1].shape.size)
            kept: list[tuple[Region, Instruction]] = []
            for region, i in alike:
                whole = next((k for k in kept if lies_in(region, k[0])), None)
                if whole is None:
                    kept.append((region, i))
                    continue
                b = Expansion(c, {})
                ranges = [(s - a, t - a, 1) for (s, t), (a, _) in zip(region, whole[0])]
                put_in_place(b, i, b.cut(whole[1], ranges))
                fired["merged"] += 1
        return [c] if fired.total() > count else []


def source_of(x: Instruction) -> tuple[Instruction, Region]:
    """The array that a value is a slice of, and which part of it."""
    if x.opcode == "slice" and all(s == 1 for s in x.attrs.slice.strides):
        return x.operands[0], tuple(zip(x.attrs.slice.starts, x.attrs.slice.limits, strict=True))
    return x, tuple((0, n) for n in x.shape.dims)


def lies_in(part: Region, whole: Region) -> bool:
    return all(a <= s and t <= e for (s, t), (a, e) in zip(part, whole, strict=True))
