"""What runs side by side shares no memory: which branches touch a value, and who may be under way
with them.

Time on the line of a schedule says that two values are alive one after the other. Where one of them
is touched by a branch, the other by a branch that may run beside it, and one of both uses is a
write, a shared place would make one branch wait for the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hloom.analysis.alias_tree import LogicalBuffer
from hloom.analysis.alias_values import Dataflow
from hloom.ir.computation import Computation
from hloom.plan.branches import Branches, BranchPlan


class Touch(NamedTuple):
    """The branches of one computation that use something, as bits, and those that write it."""

    uses: int
    writes: int


Touches = dict[str, Touch]
"""By the name of the computation whose branches they are."""
NOWHERE: Touches = {}


class Beside:
    """The branches of a plan on the time line of a module."""

    def __init__(self, flow: Dataflow, plan: BranchPlan) -> None:
        self.plan = plan
        self._at: dict[int, tuple[tuple[str, int], ...]] = {}
        """By time: computations, from inside or outside, and the bit of the branch there."""
        for c, order in flow.order.steps.items():
            if c.name in plan and order[0] in flow.time_of:
                self._lay_out(flow, c, plan[c.name])

    def _lay_out(self, flow: Dataflow, c: Computation, branches: Branches) -> None:
        """Say for each time of a computation which branch it belongs to. What was put in since the
        plan was made, such as a copy, belongs to what follows; to no branch at the end."""
        following: list[int | None] = []
        last: int | None = None
        order = flow.order.of(c)
        for i in reversed(order):
            last = branches.of.get(i.name, last)
            following.append(last)
        time = flow.time_of[order[0]]
        for i, branch in zip(order, reversed(following)):
            end = flow.time_of[i] + 1
            if branch is not None:
                for t in range(time, end):
                    self._at[t] = (*self._at.get(t, ()), (c.name, 1 << branch))
            time = end

    def touches(self, v: LogicalBuffer) -> Touches:
        """Who touches a value. What the caller hands over is written by none of them."""
        touches_: Touches = {}
        if v.kind not in ("parameter", "constant"):
            for time, _ in v.births:
                for name, bit in self._at.get(time, ()):
                    uses, writes = touches_.get(name, (0, 0))
                    touches_[name] = Touch(uses | bit, writes | bit)
        return merged(touches_, self.reads(v))

    def reads(self, v: LogicalBuffer) -> Touches:
        """Who reads a value."""
        reads_: Touches = {}
        for time in v.uses:
            for name, bit in self._at.get(time, ()):
                uses, writes = reads_.get(name, (0, 0))
                reads_[name] = Touch(uses | bit, writes)
        return reads_

    def in_the_way(self, a: Touches, b: Touches) -> bool:
        """Whether a branch would wait for another one if these were one place."""
        for name, x in a.items():
            y = b.get(name)
            if y is None:
                continue
            branches = self.plan[name]
            if branches.with_any(x.writes) & y.uses or branches.with_any(y.writes) & x.uses:
                return True
        return False

    def concurrent_users(self, touches: Touches) -> Mapping[str, tuple[int, int]]:
        """What a heap needs: who uses a place, and who may be under way with them."""
        return {
            name: (touch.uses, beside)
            for name, touch in touches.items()
            if (beside := self.plan[name].with_any(touch.uses))
        }


def merged(a: Touches, b: Touches) -> Touches:
    """The touches of both."""
    if not a or not b:
        return a or b
    touches_ = dict(a)
    for name, touch in b.items():
        uses, writes = touches_.get(name, (0, 0))
        touches_[name] = Touch(uses | touch.uses, writes | touch.writes)
    return touches_
