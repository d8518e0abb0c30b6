"""Give every caller a computation of its own (PS-05)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hloom.analysis.call_graph import CallGraph
from hloom.ir.computation import Computation
from hloom.ir.copy import copy_computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.passes.facts import flat_call_graph
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.rewrite.driver import Trace


def only_called_by_calls(computation: Computation) -> bool:
    """A skip handler: computations whose callers are all `call` may stay shared."""
    return bool(computation.callers) and all(i.opcode == "call" for i in computation.callers)


def clone_with_callees(c: Computation, module: Module) -> tuple[Computation, int]:
    """A copy of a computation and of all that it calls, and how many computations were made."""
    reachable = module.computations_in_order([c])
    copies: dict[Computation, Computation] = {}
    made = 0
    for x in reachable:
        copies[x], new_for_old = copy_computation(x, module, f"{x.name}.clone", copies)
        made += 1
        if module.schedule is not None and x in module.schedule:
            module.schedule[copies[x]] = [new_for_old[i] for i in module.schedule[x]]
    return copies[c], made


@register
class FlattenCallGraph(Pass):
    """Clone computations until each has one caller, which names it once."""

    name = "flatten-call-graph"
    gives = (flat_call_graph,)

    skip: Callable[[Computation], bool] | None = None
    """Computations for which it answers true may stay shared."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        graph = CallGraph(module)
        for c in reversed(graph.order):
            if threads and c.execution_thread not in threads:
                continue
            if self.skip is not None and self.skip(c):
                continue
            keeper: Instruction | None = None
            for caller in sorted(c.callers, key=lambda i: i.id):
                fired["cloned"] += self.separate(module, c, caller, keeper is None)
                keeper = keeper or caller
        return PassResult.of(+fired)

    def separate(self, module: Module, c: Computation, caller: Instruction, keeps: bool) -> int:
        """Give `caller` clones wherever it names `c`, but for the first place if it keeps it."""
        called = list(caller.called)
        made = 0
        for k, x in enumerate(called):
            if x is not c:
                continue
            if keeps:
                keeps = False
                continue
            called[k], count = clone_with_callees(c, module)
            made += count
        if made:
            caller.set_called(tuple(called))
        return made
