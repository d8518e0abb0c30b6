"""Who calls whom, how often, and in which context."""

from __future__ import annotations

from dataclasses import dataclass, field

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module

SEQUENTIAL = "control flow"
EMBEDDED = "embedded"
CONTROL_FLOW = frozenset(["call", "while", "conditional", "async-start"])


def call_context(i: Instruction) -> str | None:
    """`control flow` when the callee runs as a program of its own, `embedded` when it is applied
    inside the instruction (reducer, fusion body), None when nothing is called."""
    if not i.called:
        return None
    return SEQUENTIAL if i.opcode in CONTROL_FLOW else EMBEDDED


@dataclass
class CallNode:
    """What is known of one computation."""

    computation: Computation
    callers: list[Instruction] = field(default_factory=list)
    """Calling instructions, by unique id; one that names it twice stands here once."""
    callees: list[Computation] = field(default_factory=list)
    context: str = SEQUENTIAL
    """`control flow`, `embedded`, or `both`."""
    depth: int = 0
    """Longest chain of calls from the entry."""


class CallGraph:
    """The call graph of a module. Cost is linear in instructions."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.order = module.computations_in_order()
        """Callees before callers."""
        self.nodes = {c: CallNode(c) for c in self.order}
        for c in self.order:
            node = self.nodes[c]
            node.callers = sorted(c.callers, key=lambda i: i.id)
            node.callees = list(dict.fromkeys(x for i in c.instructions for x in i.called))
        for c in reversed(self.order):
            self._settle(c)

    def _settle(self, c: Computation) -> None:
        node = self.nodes[c]
        contexts = set()
        for i in node.callers:
            caller = self.nodes.get(i.parent)
            if caller is None:
                continue
            node.depth = max(node.depth, caller.depth + 1)
            own = call_context(i) or SEQUENTIAL
            contexts.add(EMBEDDED if caller.context == EMBEDDED else own)
            if caller.context == "both":
                contexts.add(EMBEDDED)
        node.context = "both" if len(contexts) > 1 else next(iter(contexts), SEQUENTIAL)

    @property
    def is_flat(self) -> bool:
        """Whether every computation in control flow has at most one caller, naming it once."""
        return all(
            sum(c.callers.values()) <= 1
            for c in self.order
            if self.nodes[c].context in (SEQUENTIAL, "both")
        )

    def can_reach(self, start: Computation, target: Computation) -> bool:
        """Whether `start` calls `target`, directly or not, or is it."""
        stack, seen = [start], {start}
        while stack:
            c = stack.pop()
            if c is target:
                return True
            for x in self.nodes[c].callees:
                if x not in seen:
                    seen.add(x)
                    stack.append(x)
        return False

    def reachable(self, start: Computation) -> set[Computation]:
        """`start` and everything it calls."""
        seen, stack = {start}, [start]
        while stack:
            for x in self.nodes[stack.pop()].callees:
                if x not in seen:
                    seen.add(x)
                    stack.append(x)
        return seen
