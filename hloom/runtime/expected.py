"""How long a run is expected to take, by what the compiler has guessed of its kernels.

Who runs programs asks it once, for the first run: whether it is worth a thread of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hloom.device.costs import Costs
from hloom.program.thunks.control import Conditional, While
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.routine import Routine
from hloom.program.thunks.thunk import Thunk

FOREIGN = "CustomCall"
"""Nothing is known of what others wrote; like XLA, we hope that it is short."""


def expected_ns(thunks: Sequence[Thunk], costs: Costs) -> float:
    """The time of these thunks on one thread; infinite where a loop runs as long as it likes."""
    return sum([_expected_ns(t, costs) for t in thunks])


def _expected_ns(t: Thunk, costs: Costs) -> float:
    if isinstance(t, Kernel):
        return t.steps * t.cost_ns
    if isinstance(t, Copy):
        return t.target.size_bytes * costs.copy_byte_ns
    if isinstance(t, While):
        return math.inf if t.trip_count is None else t.trip_count * expected_ns(t.body, costs)
    if isinstance(t, Conditional):
        return max([expected_ns(branch, costs) for branch in t.branches], default=0.0)
    if isinstance(t, Routine):
        touched = sum([u.slice.size_bytes for u in t.uses()])
        return 0.0 if t.what == FOREIGN else touched * costs.routine_byte_ns
    return sum([expected_ns(part.thunks, costs) for part in t.nested()])
