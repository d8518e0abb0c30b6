"""One order of the collectives of a computation, the same on all devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hloom.ir.computation import Computation
from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.verify.pairs import is_async_body
from hloom.passes.collectives.halves import collective_of
from hloom.passes.computation_pass import ComputationPass
from hloom.passes.pass_ import register


@register
class CollectivesScheduleLinearizer(ComputationPass):
    """Let each collective wait for the one before, in program order."""

    name = "collectives-schedule-linearizer"

    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        if c.is_fusion or is_async_body(c):
            return []
        count = fired.total()
        # The last collective, by number, that a value waits for: it waits for all before, too.
        waits: dict[Instruction, int] = {}
        last: Instruction | None = None
        number = 0
        for i in c.in_order():
            after = [waits[x] for x in (*i.operands, *i.control_predecessors)]
            waits[i] = max(after, default=0)
            if i.opcode not in COLLECTIVES and collective_of(i) is None:
                continue
            if last is not None and waits[i] < number:
                i.add_control_predecessor(last)
                fired["ordered"] += 1
            number += 1
            waits[i], last = number, i
        return [c] if fired.total() > count else []
