"""Give every caller a computation of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hloom.analysis.call_graph import CallGraph
from hloom.ir.computation import Computation
from hloom.ir.copy import copy_computation, separate_callers
from hloom.ir.module import Module
from hloom.passes.facts import loops_own_bodies
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.rewrite.driver import Trace


def only_called_by_calls(computation: Computation) -> bool:
    """A skip handler: computations whose callers are all `call` may stay shared."""
    return bool(computation.callers) and all(i.opcode == "call" for i in computation.callers)


def not_called_by_loops(computation: Computation) -> bool:
    """A skip handler: only bodies and conditions of loops get one caller each, so that passes may
    write into a body what they know of its loop. Reducers and comparators stay shared."""
    return all(i.opcode != "while" for i in computation.callers)


def clone(c: Computation, module: Module) -> Computation:
    """A copy of a computation that calls the same computations, with the same schedule."""
    copied, new_for_old = copy_computation(c, module, f"{c.name}.clone")
    if module.schedule is not None and c in module.schedule:
        module.schedule[copied] = [new_for_old[i] for i in module.schedule[c]]
    return copied


@register
class FlattenCallGraph(Pass):
    """Clone computations until each has one caller, which names it once.

    Callers come first, so that all callers of a computation, clones among them, are known when
    its turn comes: what a clone calls is cloned in its turn, and a whole subtree with it.
    """

    name = "flatten-call-graph"
    gives = (loops_own_bodies,)

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
            fired["cloned"] += separate_callers(c, lambda c=c: clone(c, module))
        return PassResult.of(+fired)
