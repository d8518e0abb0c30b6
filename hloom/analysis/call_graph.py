"""Who calls whom, how often, and in which context."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import CONTROL_FLOW

SEQUENTIAL = "control flow"
EMBEDDED = "embedded"
BOTH = "both"
NONE = "none"
RUNS_CALLED = opcodes(CONTROL_FLOW)


def expanded_size(module: Module, opcodes: Collection[str] = RUNS_CALLED) -> int:
    """How many instructions the entry has with what these opcodes call, each site with a copy of
    its own. Grows exponentially with the depth of calls where bodies call one another twice; its
    cost does not."""
    sizes: dict[Computation, int] = {}
    for c in module.computations_in_order([module.entry]):
        inside = sum([sizes[x] for i in c.instructions if i.opcode in opcodes for x in i.called])
        sizes[c] = len(c.instructions) + inside
    return sizes[module.entry]


def call_context(i: Instruction) -> str:
    """`control flow` when the callee runs as a program of its own, `embedded` when it is applied
    inside the instruction (reducer, fusion body), `none` when nothing is called."""
    if not i.called:
        return NONE
    return SEQUENTIAL if i.opcode in RUNS_CALLED else EMBEDDED


@dataclass
class CallNode:
    """What is known of one computation."""

    computation: Computation
    callers: list[Instruction] = field(default_factory=list)
    """Calling instructions, by unique id; one that names it twice stands here once."""
    callees: list[Computation] = field(default_factory=list)
    context: str = NONE
    """`control flow`, `embedded`, `both`, or `none` when nothing calls it; the entry runs as
    control flow."""
    depth: int = 0
    """Longest chain of calls from a computation that nothing calls."""


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
        contexts = {SEQUENTIAL} if c.is_entry else set()
        for i in node.callers:
            caller = self.nodes[i.parent]
            node.depth = max(node.depth, caller.depth + 1)
            own = call_context(i)
            contexts.add(EMBEDDED if caller.context == EMBEDDED else own)
            if caller.context == BOTH:
                contexts.add(EMBEDDED)
        node.context = BOTH if len(contexts) > 1 else next(iter(contexts), NONE)

    @property
    def is_flat(self) -> bool:
        """Whether every computation called from control flow has at most one call site, and none
        is called in both contexts."""
        for c in self.order:
            context = self.nodes[c].context
            sites = sum(c.callers.values())
            if context == BOTH or (context == SEQUENTIAL and sites > 1):
                return False
        return True

    def visit(self, visitor: Callable[[CallNode], bool | None]) -> bool:
        """Call `visitor` for every node, callees first; True when it was for any of them."""
        answers = [bool(visitor(self.nodes[c])) for c in self.order]
        return any(answers)

    def can_reach(self, start: Computation, target: Computation) -> bool:
        """Whether `start` calls `target`, directly or not, or is it."""
        return target in self.reachable(start)

    def reachable(self, start: Computation) -> set[Computation]:
        """`start` and everything it calls."""
        return self._closure(start, lambda c: self.nodes[c].callees)

    def ancestors(self, c: Computation) -> set[Computation]:
        """`c` and everything that calls it, directly or not."""
        return self._closure(c, lambda x: [i.parent for i in self.nodes[x].callers])

    def dominates(self, a: Computation, b: Computation) -> bool:
        """Whether every chain of calls that ends in `b` goes through `a`."""
        if a is b:
            return True
        seen, stack = {b}, [b]
        while stack:
            callers = [i.parent for i in self.nodes[stack.pop()].callers]
            if not callers:
                return False
            for x in callers:
                if x is not a and x not in seen:
                    seen.add(x)
                    stack.append(x)
        return True

    def nearest_common_ancestors(self, computations: list[Computation]) -> set[Computation]:
        """Those that call all of these (or are one of them), of which none calls another."""
        common = set.intersection(*(self.ancestors(c) for c in computations))
        return {c for c in common if not any(x in common for x in self.nodes[c].callees)}

    @staticmethod
    def _closure(
        start: Computation, following: Callable[[Computation], list[Computation]]
    ) -> set[Computation]:
        seen, stack = {start}, [start]
        while stack:
            for x in following(stack.pop()):
                if x not in seen:
                    seen.add(x)
                    stack.append(x)
        return seen
