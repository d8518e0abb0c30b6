"""Stacks that a loop writes whole begin as memory of any content.

A scan stacks one row of its results in each step, into an array that is filled with zeros before.
Nobody reads a zero: the steps write every row, and read none. Filling it writes the memory once
more than the loop does, which is half of the time of a loop with small steps.

    broadcast(0) -> while: Y[i] = row, for every i  =>  AllocateBuffer -> while
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations
from math import prod

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.passes.collectives.loop_results import is_read_by_conditions, set_initial
from hloom.passes.collectives.stacked_updates import (
    common_steps,
    overlap,
    region_of,
    updates_of,
)
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.expand.expansion import Expansion
from hloom.passes.facts import loops_own_bodies
from hloom.passes.normalize.loop_state import can_be_taken_apart
from hloom.passes.pass_ import register
from hloom.passes.simplify.dce import remove_dead_instructions

MEMORY = "AllocateBuffer"


@register
class WhileLoopFreshStacks(ComputationPass):
    """Leave out filling what a loop writes whole."""

    name = "while-loop-fresh-stacks"
    opcodes = frozenset(["while"])
    needs = (loops_own_bodies,)

    least_bytes: int = 1024
    """Filling less is no work."""

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        before = fired.total()
        for loop in [i for i in c.instructions if i.opcode == "while"]:
            if not can_be_taken_apart(loop) or loop.has_control_edges:
                continue
            for k, init in enumerate(loop.operands[0].operands):
                if init.opcode != "broadcast" or not init.shape.is_static:
                    continue
                if init.shape.size_bytes >= self.least_bytes and is_written_whole(loop, k):
                    memory = Expansion(c, {}).emit(
                        "custom-call", custom_call_target=MEMORY, shape=init.shape
                    )
                    set_initial(loop, k, memory)
                    fired["left out"] += 1
        if fired.total() == before:
            return ()
        remove_dead_instructions(c)
        return (c,)


def is_written_whole(loop: Instruction, k: int) -> bool:
    """Whether the steps write all of an element of the state, each part once, and read nothing."""
    body = loop.called[1]
    last = body.root.operands[k]
    if last.opcode != "dynamic-update-slice" or is_read_by_conditions([loop], k):
        return False
    chain, steps = updates_of(body, last), common_steps([loop])
    if chain is None or chain[0] != k or steps is None:
        return False
    regions = [region_of(w, body, *steps) for w in chain[1]]
    known = [r for r in regions if r is not None]
    if len(known) < len(regions) or any(overlap(x, y) for x, y in combinations(known, 2)):
        return False
    return sum(prod(b - a for a, b in r) for r in known) == last.shape.size
