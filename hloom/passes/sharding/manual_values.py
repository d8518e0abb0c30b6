"""Which values are in regions that the program partitions itself (`shard_map`)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hloom.passes.sharding.nodes import Node, Nodes

if TYPE_CHECKING:
    from hloom.passes.sharding.propagate import Step


def spread_manual(nodes: Nodes, steps: list[Step]) -> None:
    """What the program handles by itself it does so in everything computed from it, and in what
    only such values read."""
    readers: dict[Node, list[Node]] = defaultdict(list)
    makers: dict[Node, list[Node]] = defaultdict(list)
    for step in steps:
        count = 0 if step.is_border else len(step.table.operands)
        for x in step.nodes[:count]:
            for y in step.nodes[count:]:
                readers[x].append(y)
                makers[y].append(x)
    stack = [n for n in nodes.nodes if n.all_manual or n.manual]
    while stack:
        node = stack.pop()
        for y in readers[node]:
            if _take_manual(y, node):
                stack.append(y)
        for x in makers[node]:
            if all(_manual(y) == _manual(node) for y in readers[x]) and _take_manual(x, node):
                stack.append(x)


def _manual(node: Node) -> tuple[bool, frozenset[int]]:
    return node.all_manual, node.manual


def _take_manual(node: Node, source: Node) -> bool:
    if _manual(node) != (False, frozenset()):
        return False
    if node.stated is not None and not _speaks_of_others(node, source):
        return False
    node.all_manual, node.manual, node.space = source.all_manual, source.manual, source.space
    node.why.append("in a region that the program partitions itself")
    return True


def _speaks_of_others(node: Node, source: Node) -> bool:
    """Whether what is said of a value within a region can be of axes that are not the region's own:
    these it takes for granted."""
    if source.all_manual or node.space not in (None, source.space):
        return False
    return node.used.isdisjoint(source.manual)
