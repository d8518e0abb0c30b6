"""Which values are in regions that the program partitions itself (`shard_map`), and what goes on
through the borders of these."""

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


def crossed(step: Step, nodes: Nodes) -> list[Node]:
    """Cut a value inside of a region as outside, or outside as inside, along the axes that are not
    the program's own; those that changed."""
    outer, inner = step.nodes
    own = inner.manual - outer.manual
    if inner.all_manual or inner.space is None or outer.space not in (None, inner.space):
        return []
    changed: dict[Node, None] = {}
    for d, (around, within) in enumerate(zip(outer.dims, inner.dims)):
        head = tuple([a for a in around if a in own])
        rest = around[len(head) :]
        if around[: len(head)] != head:
            continue  # parts inside are not whole tiles of it
        for node, have, want in ((inner, within, rest), (outer, around, head + within)):
            more = want[len(have) :]
            fits = node.is_open[d] and more and want[: len(have)] == have
            if not fits or not node.used.isdisjoint(more):
                continue
            if inner.shape.dims[d] % nodes.spaces.spaces[inner.space].size(want[-len(more) :]):
                continue
            node.dims[d], node.space, node.source = want, inner.space, step.at.name
            node.why.append(f"through the border of a region at %{step.at.name}")
            changed[node] = None
    return list(changed)
