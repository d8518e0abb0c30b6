"""When values are alive on the time line of their module."""

from __future__ import annotations

from bisect import bisect_left

from hloom.analysis.alias_tree import FOREVER, Branching, LogicalBuffer


def intervals(v: LogicalBuffer) -> list[tuple[int, int]]:
    """When a value is alive: half-open, disjoint, sorted, in thirds of a step.

    An instruction at time t reads and writes in [3t, 3t + 2); so an interval that was cut off at
    3t, because something wrote over it, never looks like one that ends with a read.
    """
    births = _births(v) if len(v.births) > 1 else [v.births[0][0]]
    spans: list[tuple[int, int]] = []
    uses = v.uses
    for k, birth in enumerate(births):
        until = births[k + 1] if k + 1 < len(births) else FOREVER
        position = bisect_left(uses, until) - 1
        if position >= 0 and uses[position] >= birth:
            spans.append((3 * birth, 3 * uses[position] + 2))
        elif k == 0:
            spans.append((3 * birth, 3 * birth + 2))
    return spans


def live_range(v: LogicalBuffer) -> tuple[int, int]:
    """The time of the first birth and that of the last use, or of the birth if there is none."""
    alive = intervals(v)
    return alive[0][0] // 3, alive[-1][1] // 3


def _births(v: LogicalBuffer) -> list[int]:
    """The births that count. As the operand of a branch a value is born again only if nobody
    needs it once the conditional has ended, up to where the loop ends whose state it is."""
    times: list[int] = []
    until = FOREVER
    for time, where in reversed(v.births):
        if where is None:
            times.append(time)
            until = time
            continue
        if not _is_needed_after(v, where, until):
            times.append(time)
    times.reverse()
    return times


def _is_needed_after(v: LogicalBuffer, where: Branching | None, until: int) -> bool:
    """Whether a value is used once a conditional has ended: in the branch that it stands in, or
    behind the conditional of that branch, and so on outwards. Sibling branches do not count."""
    while where is not None:
        first = bisect_left(v.uses, where.end)
        if first < bisect_left(v.uses, min(until, where.outer.end + 1)):
            return True
        where = where.outer.branching
    return False
