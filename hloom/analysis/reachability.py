"""Which instruction runs before which, through data and control edges of one computation.

A bit set per instruction, as a Python integer: row `r` holds every instruction that `r` depends
on. Building is one union per edge; a query is a shift. Python's integers make the union of
100,000 bits 1.5 microseconds, so this beats searching from the second query on.
"""

from __future__ import annotations

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction


class Reachability:
    """The dependency order of one computation."""

    def __init__(self, computation: Computation) -> None:
        self.index: dict[Instruction, int] = {}
        self.rows: list[int] = []
        for i in computation.in_order():
            row = 0
            for x in (*i.operands, *i.control_predecessors):
                k = self.index[x]
                row |= self.rows[k] | (1 << k)
            self.index[i] = len(self.rows)
            self.rows.append(row)

    def depends(self, later: Instruction, earlier: Instruction) -> bool:
        """Whether `later` cannot run before `earlier` has run (an instruction does not depend on
        itself)."""
        return bool(self.rows[self.index[later]] >> self.index[earlier] & 1)

    def ordered(self, a: Instruction, b: Instruction) -> bool:
        """Whether one of the two must run before the other."""
        return self.depends(a, b) or self.depends(b, a)

    def predecessors(self, i: Instruction) -> list[Instruction]:
        """Everything `i` depends on, in program order."""
        row = self.rows[self.index[i]]
        return [x for x, k in self.index.items() if row >> k & 1]


def depends_on(later: Instruction, earlier: Instruction) -> bool:
    """The same for one question, by searching: no table is built."""
    stack, seen = [later], {later}
    while stack:
        for x in (y := stack.pop()).operands + y.control_predecessors:
            if x is earlier:
                return True
            if x not in seen:
                seen.add(x)
                stack.append(x)
    return False
