"""The order of execution with the least memory, of a few candidates.

Each computation gets the best, by simulated peak, of: list scheduling (`list.py`), a depth-first
order that computes what needs most memory first, a plain post order, and the order it came in.
Callees come before callers, so that what they need counts where they are called.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from hloom.analysis.call_graph import RUNS_CALLED
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.plan.order import Order, Schedule
from hloom.schedule.footprint import Footprint, footprint, peak_bytes
from hloom.schedule.list import list_order
from hloom.schedule.overlap import overlapped

LOG = logging.getLogger("hloom")
NO_LIMIT = 2**64 - 1
"""How a log says that there is none: it counts bytes, which are never below 0."""


def least_memory_order(module: Module, kept_bytes: float = 0.0) -> Order:
    """An order of the entry and everything that control flow calls. `kept_bytes`: how much may be
    kept for longer so that what goes on beside kernels begins early and is awaited late."""
    steps: dict[Computation, list[Instruction]] = {}
    peaks: dict[Computation, int] = {}
    for c in _sequential(module):
        steps[c], peaks[c] = least_memory_steps(c, peaks)
    LOG.debug(
        "%s: memory limit of what goes on beside kernels: %d bytes",
        *(module.name, min(kept_bytes, NO_LIMIT)),
    )
    return overlapped(Order(steps), kept_bytes)


def order_as_it_stands(module: Module) -> Order:
    """Every computation that runs, in the order in which its instructions stand."""
    return Order({c: c.in_order() for c in _sequential(module)})


def stated_order(module: Module, schedule: Schedule | None) -> Order | None:
    """The order that a module states; None where it states none of all that runs: it has changed
    since."""
    if schedule is None:
        return None
    steps = {c: [*schedule.get(c, ())] for c in _sequential(module)}
    is_whole = all(set(steps[c]) == set(c.instructions) for c in steps)
    return Order(steps) if is_whole else None


def least_memory_steps(
    c: Computation, peaks: dict[Computation, int] | None = None
) -> tuple[list[Instruction], int]:
    """The best order of one computation, and its simulated peak in bytes, without parameters and
    constants. `peaks`: those of what it calls."""
    f = footprint(c, peaks or {})
    best: list[int] = []
    least = -1
    for candidate in CANDIDATES:
        order = candidate(f)
        peak = peak_bytes(f, order)
        if least < 0 or peak < least:
            best, least = order, peak
    return [f.instructions[k] for k in best], least


def _sequential(module: Module) -> list[Computation]:
    """The entry and what control flow calls from it, callees first."""
    reachable = {module.entry}
    for c in reversed(module.computations_in_order()):
        if c in reachable:
            reachable.update(x for i in c.instructions if i.opcode in RUNS_CALLED for x in i.called)
    return [c for c in module.computations_in_order() if c in reachable]


def depth_first(f: Footprint) -> list[int]:
    """Post order from the root; of the operands, the one behind which most bytes are made first,
    since its result is small against what it took."""
    weight = _weights(f)
    return _post_order(f, lambda k: -weight[k])


def post_order(f: Footprint) -> list[int]:
    """Post order from the root, operands as they stand."""
    return _post_order(f, None)


def as_it_stands(f: Footprint) -> list[int]:
    """The order of the program."""
    return list(range(len(f.instructions)))


CANDIDATES: tuple[Callable[[Footprint], list[int]], ...] = (
    list_order,
    depth_first,
    post_order,
    as_it_stands,
)


def _weights(f: Footprint) -> list[int]:
    """Bytes made by an instruction and, counted once for each path, what it needs; capped."""
    weight = [0] * len(f.instructions)
    needs = f.needs
    for k in range(len(weight)):
        new_bytes = sum([f.sizes[b] for b in f.makes[k]])
        weight[k] = min(new_bytes + sum([weight[x] for x in needs[k]]), 1 << 60)
    return weight


def _post_order(f: Footprint, key: Callable[[int], int] | None) -> list[int]:
    """Everything behind what it needs and, unless that makes a ring, behind what it wishes to
    wait for."""
    needs = f.needs if key is None else [sorted(n, key=key) for n in f.needs]
    before: list[list[int]] = [[] for _ in needs]
    for k, wishes in enumerate(f.wishes):
        for x in wishes:
            before[x].append(k)
    hard = [set(n) for n in needs]
    state = [0] * len(needs)
    order: list[int] = []
    roots = [k for k, follows in enumerate(f.follows) if not follows]
    for root in roots:
        stack = [(root, iter(needs[root] + before[root]))]
        if state[root]:
            continue
        state[root] = 1
        while stack:
            k, rest = stack[-1]
            for x in rest:
                if state[x] == 0:
                    state[x] = 1
                    stack.append((x, iter(needs[x] + before[x])))
                    break
                if state[x] == 1 and x in hard[k]:
                    return as_it_stands(f)
            else:
                state[k] = 2
                order.append(k)
                stack.pop()
    return order


def peak_bytes_of(module: Module) -> int:
    """The most bytes alive at one time, without arguments and constants, of each computation in the
    order of its program or depth first, whichever is less: quick, and before anything is fused."""
    peaks: dict[Computation, int] = {}
    for c in _sequential(module):
        f = footprint(c, peaks)
        peaks[c] = min([peak_bytes(f, candidate(f)) for candidate in (depth_first, as_it_stands)])
    return peaks[module.entry]
