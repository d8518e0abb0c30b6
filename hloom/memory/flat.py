"""Gives every computation that control flow calls one call site, so that values have one place."""

from __future__ import annotations

from hloom.analysis.call_graph import RUNS_CALLED
from hloom.ir.computation import Computation
from hloom.ir.copy import copy_computation, separate_callers
from hloom.ir.module import Module
from hloom.plan.order import Order

OWN_CALLEE = RUNS_CALLED | {"fusion"}


def flatten(module: Module, order: Order) -> int:
    """Copy what is called by control flow from more than one place; how many copies were made.

    Callers come first, so that what a copy calls is copied in its turn. A fusion gets a body of its
    own too, as the verifier wants; functions that are applied to elements stay shared. A copy runs
    in the order of what it is a copy of.
    """
    copies = 0
    for c in reversed(module.computations_in_order()):
        copies += separate_callers(c, lambda c=c: _copy(c, module, order), OWN_CALLEE)
    return copies


def _copy(c: Computation, module: Module, order: Order) -> Computation:
    copied, new_for_old = copy_computation(c, module)
    if c in order.steps:
        order.steps[copied] = [new_for_old[i] for i in order.steps[c]]
    return copied


def laid_out(module: Module) -> list[Computation]:
    """The entry and what control flow calls from it: the computations whose values have buffers,
    callers first."""
    computations: dict[Computation, None] = {}
    stack = [module.entry]
    while stack:
        c = stack.pop()
        if c in computations:
            continue
        computations[c] = None
        for i in c.instructions:
            if i.opcode in RUNS_CALLED:
                stack.extend(i.called)
    return list(computations)
