"""Custom calls `control_dep(before, after)` as control edges (`jax.experimental.control_deps`).

A front end has no way to say that one operation runs before another but by a call that reads both.
An edge that closes a cycle with the data is an error, as in XLA. A parameter or constant is there
before anything runs, so nothing can be put before it.
"""

from __future__ import annotations

from collections import Counter

from hloom.base.diagnostics import GraphError
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.order import repair_schedules
from hloom.passes.expand.expansion import ExpandError, refuse
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.rewrite.driver import Trace

TARGET = "control_dep"
ALWAYS_THERE = frozenset(["parameter", "constant"])


@register
class ControlDepRewriter(Pass):
    """Replace `control_dep` custom calls by control edges between their two operands."""

    name = "control-dep-rewriter"

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        rewritten = 0
        for c in on_threads(module, threads):
            calls = [
                i
                for i in c.instructions
                if i.opcode == "custom-call" and i.attrs.custom_call_target == TARGET
            ]
            for i in calls:
                _order(i)
            if calls:
                _refuse_cycles(c)
            rewritten += len(calls)
        if rewritten:
            repair_schedules(module)
        return PassResult.of(Counter({TARGET: rewritten} if rewritten else {}))


def _refuse_cycles(c: Computation) -> None:
    """Raise where the edges close a cycle."""
    try:
        c.in_order()
    except GraphError as error:
        message = f"a cycle is detected after {TARGET}: {error.message}"
        raise ExpandError(message, instruction=c.name, rule="control-dep") from None


def _order(i: Instruction) -> None:
    """The edge that a call asks for, in place of the call."""
    if len(i.operands) != 2 or not (i.shape.is_tuple and not i.shape.elements):
        raise refuse(
            i,
            f"{TARGET} takes what runs before and what runs after, and returns nothing: (), not "
            f"{len(i.operands)} operands and {i.shape.text_without_layout}",
            "control-dep",
        )
    before, after = i.operands
    if before is after:
        raise refuse(i, f"a cycle is detected: %{after.name} before itself", "control-dep")
    if after.opcode not in ALWAYS_THERE:
        after.add_control_predecessor(before)
    computation = i.parent
    if i.users or i.is_root:
        computation.replace(i, computation.add("tuple"))
    for x in i.control_successors:
        for y in i.control_predecessors:
            x.add_control_predecessor(y)
    i.drop_control_edges()
    computation.erase(i)
