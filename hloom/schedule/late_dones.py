"""Copies in two halves are awaited where somebody needs what they bring, not before.

The order with the least memory ends what it begins; whoever waits then lets an engine that copies
beside the kernels save nothing. A done goes right before its first reader. That keeps the source
for longer, so a copy out of a memory space other than the default one, which is small, stays.
"""

from __future__ import annotations

from collections.abc import Iterable

from hloom.analysis.alias_spaces import moved_to
from hloom.ir.instruction import Instruction
from hloom.plan.order import Order


def await_late(order: Order) -> None:
    """Move the dones of copies into other memory spaces to their first readers."""
    for c, steps in order.steps.items():
        dones = [i for i in steps if i.opcode == "copy-done" and moved_to(i.operands[0])]
        if dones:
            order.steps[c] = _with_late(steps, dones)


def _with_late(steps: list[Instruction], dones: Iterable[Instruction]) -> list[Instruction]:
    later = set(dones)
    waiting = dict.fromkeys(later)
    late: list[Instruction] = []
    for i in steps:
        if i in later:
            continue
        for x in (*i.operands, *i.control_predecessors):
            if x in waiting:
                del waiting[x]
                late.append(x)
        late.append(i)
    return [*late, *waiting]  # the root, or what nobody reads
