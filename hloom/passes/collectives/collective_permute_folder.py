"""A permute of a permute is one permute; one that sends everything to where it is, is nothing.

A device that is no target of the first has zeros, and so have those that it sends them to: they are
no targets of the one permute either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.values.group_modes import device_pairs, group_mode
from hloom.passes.collectives.groups import is_plain, module_of, sole_reader
from hloom.passes.collectives.pairs import composed
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.pass_ import register


@register
class CollectivePermuteFolder(ComputationPass):
    """Replace collective-permute(collective-permute(x)) by one permute, and one to itself by x."""

    name = "collective-permute-folder"

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        count = fired.total()
        for i in c.in_order():
            if i.opcode != "collective-permute" or i.attrs.slice_sizes or not is_plain(i):
                continue
            (x,) = i.operands
            if self.folds(i, x):
                pairs = composed(x.attrs.source_target_pairs, i.attrs.source_target_pairs)
                attrs = replace(i.attrs, source_target_pairs=pairs)
                new = c.append(i.opcode, attrs, x.operands, i.shape, i.opcode)
                new.copy_annotations(i)
                c.replace(i, new)
                c.erase(i)
                c.erase(x)
                i = new
                fired["folded"] += 1
            if stays(i):
                c.replace(i, i.operands[0])
                c.erase(i)
                fired["stays"] += 1
        return [c] if fired.total() > count else []

    def folds(self, i: Instruction, x: Instruction) -> bool:
        if x.opcode != i.opcode or x.attrs.slice_sizes or not is_plain(x):
            return False
        return sole_reader(x) is i and group_mode(x.attrs) == group_mode(i.attrs)


def stays(i: Instruction) -> bool:
    """Whether every device gets what it has."""
    module, mode = module_of(i), group_mode(i.attrs)
    replicas, partitions = module.replica_count, module.num_partitions
    if mode is None or i.operands[0].shape is not i.shape or replicas * partitions < 2:
        return False
    if i.sharding is not None and i.sharding != i.operands[0].sharding:
        return False
    pairs = device_pairs(i.attrs.source_target_pairs, mode, replicas, partitions)
    return set(pairs) == {(d, d) for d in range(replicas * partitions)}
