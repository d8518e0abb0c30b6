"""A reduce-scatter of an all-reduce the other way round: the all-reduce is of a shard then.

On a mesh, a sum over one axis that is summed and cut along another one. Both orders add the same
terms where devices that meet in the all-reduce take the same shard, and their groups of the
reduce-scatter together are what one device has after both.
"""

from __future__ import annotations

from collections import Counter

from hloom.ir.instruction import Instruction
from hloom.ir.values.group_modes import Groups
from hloom.passes.collectives.groups import (
    devices_of,
    is_plain,
    positions,
    reduction_key,
    reduction_of,
    sole_reader,
)
from hloom.passes.collectives.moving import CollectiveMotion, CollectiveMove, again
from hloom.passes.expand.expansion import Expansion
from hloom.passes.pass_ import register
from hloom.types.shape import shape


@register
class AllReduceReduceScatterReorder(CollectiveMotion):
    """Replace reduce-scatter(all-reduce(x)) by all-reduce(reduce-scatter(x))."""

    name = "all-reduce-reduce-scatter-reorder"
    opcodes = frozenset(["reduce-scatter"])
    what = "reordered"

    def move(self, b: Expansion, i: Instruction) -> CollectiveMove | None:
        first = i.operands[0]
        if first.opcode != "all-reduce" or sole_reader(first) is not i:
            return None
        if not is_plain(i) or not is_plain(first) or reduction_of(i) is None:
            return None
        if reduction_key(i) != reduction_key(first):
            return None
        inner, outer = devices_of(first), devices_of(i)
        if inner is None or outer is None or not is_same_either_way(inner, outer):
            return None
        of = shape(i.shape.dtype, i.shape.dims)
        scattered = again(b, i, first.operands[0], of)
        return CollectiveMove(i, again(b, first, scattered, of), [first])


def is_same_either_way(reduced: Groups, scattered: Groups) -> bool:
    """Whether every device gets the same terms of the same shard in both orders."""
    in_reduced, in_scattered = positions(reduced), positions(scattered)
    for device, (group, shard) in in_scattered.items():
        partners = reduced[in_reduced[device][0]]
        if any(in_scattered[p][1] != shard for p in partners):
            return False
        now = Counter(d for e in scattered[group] for d in reduced[in_reduced[e][0]])
        then = Counter(d for p in partners for d in scattered[in_scattered[p][0]])
        if now != then:
            return False
    return True
