"""The order of kernels among one another, kept true while kernels are merged.

Nodes are groups and the instructions that stand alone; every node has a number, and what a node
reads has a lower one. Two nodes may become one when nothing runs between them: a search from the
lower one, among nodes numbered between the two, must not come to the higher one. After a merge
only the nodes between are numbered anew (Pearce and Kelly, A dynamic topological sort algorithm,
2006). The search that asks is bounded; the other one is made for merges only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from hloom.ir.instruction import Instruction
from hloom.passes.fuse.fusion_plan import FusionPlan
from hloom.passes.fuse.group import FusionGroup

Node = FusionGroup | Instruction
BUDGET = 150
"""Nodes one search may visit."""
BETWEEN = "something else runs between them"
FAR = "too much runs between them to look at"


class KernelOrder:
    """Numbers for the nodes of a plan."""

    def __init__(self, plan: FusionPlan) -> None:
        self.plan = plan
        self.number: dict[Node, int] = {}
        position = plan.position
        for p, at in position.items():
            self.number[plan.owner.get(p, p)] = at

    def node(self, x: Instruction) -> Node:
        """What makes a value."""
        return self.plan.owner.get(x, x)

    def after(self, node: Node) -> Iterator[Node]:
        """What reads a node's results, each perhaps more often than once."""
        where, standing = self.plan.where, self.plan.standing
        results = node.roots if isinstance(node, FusionGroup) else (node,)
        for r in results:
            for u in r.users:
                groups = where.get(u)
                if groups is None or u in standing:
                    yield u
                for g in groups or ():
                    if g is not node and r not in g.members:
                        yield g
        if isinstance(node, Instruction):
            yield from map(self.node, node.control_successors)

    def before(self, node: Node) -> Iterator[Node]:
        """What a node reads."""
        if isinstance(node, FusionGroup):
            yield from map(self.node, node.inputs())
        else:
            yield from map(self.node, node.operands)
            yield from map(self.node, node.control_predecessors)

    def obstacle(self, a: FusionGroup, b: FusionGroup) -> str | None:
        """Why the two cannot be one kernel: the way from one to the other through a third."""
        number = self.number
        low, high = (a, b) if number[a] < number[b] else (b, a)
        path = self._search(low, high, forward=True)
        return path if isinstance(path, str) else None

    def _search(
        self, start: Node, end: Node, forward: bool, budget: float = BUDGET
    ) -> set[Node] | str:
        """Nodes numbered between that can be reached; why not, when `end` is met through one."""
        number = self.number
        step = self.after if forward else self.before
        last = number[end]
        seen: set[Node] = set()
        stack: list[Node] = [start]
        while stack:
            node = stack.pop()
            for x in step(node):
                if x is end:
                    if node is not start:
                        return BETWEEN
                    continue
                if x in seen or (number[x] > last if forward else number[x] < last):
                    continue
                seen.add(x)
                stack.append(x)
                if len(seen) > budget:
                    return FAR
        seen.discard(start)
        return seen

    def merged(self, a: FusionGroup, b: FusionGroup, merged_group: FusionGroup) -> None:
        """Number the new group, which stands for both now; call before the plan's tables change."""
        number = self.number
        low, high = (a, b) if number[a] < number[b] else (b, a)
        later = self._search(low, high, forward=True)
        # Only the search forward was bounded when the merge was allowed.
        sooner = self._search(high, low, forward=False, budget=math.inf)
        assert isinstance(later, set) and isinstance(sooner, set)
        moved = sorted(sooner, key=number.__getitem__)
        rest = sorted(later - sooner, key=number.__getitem__)
        places = sorted([number[x] for x in (*moved, *rest, low, high)])
        for x, at in zip((*moved, merged_group, *rest), places):
            number[x] = at
        del number[low], number[high]
