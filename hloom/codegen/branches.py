"""Which steps are to run side by side, by what they compute, whatever memory they have been given.

Places in memory are decided for steps one after another: what is dead by then is overwritten. Two
loops of which neither needs the other then share their counters' place, and one waits for the
other. So, where `runs.py` says that cores are idle for long, the order that values ask for is
looked at, without memory. If that saves enough more, it is what memory is assigned by again.

How: the steps are put in groups as for runs, and these on *lanes*, each where it can begin first. A
lane is a thread's worth of work: what is on one lane is one after another, and shares memory as
ever. So memory grows with the lanes at most, not with the steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hloom.codegen.runs import Decision, Node, Times, grouped, us
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.plan.branches import Branches
from hloom.program.graph import execution_graph
from hloom.program.thunks.thunk import Thunk, all_states, all_uses

MOST_GROUPS = 512
"""More are not told apart: who may be under way with whom is kept for each."""


@dataclass(frozen=True)
class Proposal:
    """The branches of one computation that should not wait for each other."""

    computation: str
    where: str
    """The sequence in decisions."""
    branches: Branches
    best_ns: float
    """By what is computed alone."""
    shares: str
    """Two steps that wait because of their memory, and which."""


def proposals(
    decisions: Sequence[Decision],
    made_by: Mapping[Thunk, Instruction],
    schedule: Mapping[str, Sequence[Instruction]],
    device: Device,
    lanes: int,
) -> list[Proposal]:
    """What memory should be assigned for, computation by computation; mostly nothing.

    `made_by`: the instruction of each thunk; `schedule`: by the name of a computation.
    """
    proposed = []
    for d in decisions:
        origins = [made_by.get(t) for t in d.steps]
        if not d.is_open or None in origins:
            continue
        name = origins[0].parent.name if origins[0] else ""
        proposal = _proposal(d, origins, schedule[name], device, lanes)
        if proposal is not None:
            proposed.append(proposal)
    return proposed


def _proposal(
    d: Decision,
    origins: Sequence[Instruction | None],
    order: Sequence[Instruction],
    device: Device,
    lanes: int,
) -> Proposal | None:
    costs, units = device.costs, device.compute.units
    steps, waits = _by_values(d.steps, origins, order)
    times = [Times.sum([Times.of(t, costs, units) for t in thunks]) for _, thunks in steps]
    groups = grouped(times, _reduced(waits), costs, units)
    if not 1 < len(groups) <= MOST_GROUPS:
        return None
    best, ancestors = _on_lanes(groups, lanes)
    whole = Times.sum(times)
    best = max(best, whole.work / units)
    if d.expected_ns - best < whole.least_gain(costs):
        return None
    of = {steps[k][0].name: g for g, group in enumerate(groups) for k in group.members}
    branches = Branches(of, _beside(ancestors))
    return Proposal(
        order[0].parent.name, d.where, branches, best, _shared(d.steps, origins, branches)
    )


def _by_values(
    thunks: Sequence[Thunk], origins: Sequence[Instruction | None], order: Sequence[Instruction]
) -> tuple[list[tuple[Instruction, list[Thunk]]], list[int]]:
    """The instructions of a sequence that take steps, with these, and for each the bits of those
    before it whose values, effects or states it needs."""
    of: dict[Instruction, list[Thunk]] = {}
    for t, i in zip(thunks, origins):
        if i is not None:
            of.setdefault(i, []).append(t)
    steps: list[tuple[Instruction, list[Thunk]]] = []
    waits: list[int] = []
    stands_for: dict[Instruction, int] = {}
    states: dict[str, int] = {}
    for i in order:
        needs = 0
        for x in (*i.operands, *i.control_predecessors):
            needs |= stands_for.get(x, 0)
        own = of.get(i)
        if own is None:
            stands_for[i] = needs
            continue
        for state in {s for t in own for s in all_states(t)}:
            needs |= states.get(state, 0)
            states[state] = 1 << len(steps)
        stands_for[i] = 1 << len(steps)
        steps.append((i, own))
        waits.append(needs)
    return steps, waits


def _reduced(waits: Sequence[int]) -> list[tuple[int, int]]:
    """The edges of bits, without those that follow from others."""
    edges: list[tuple[int, int]] = []
    ancestors: list[int] = []
    for number, needs in enumerate(waits):
        seen = 0
        while needs:
            other = needs.bit_length() - 1
            edges.append((other, number))
            seen |= ancestors[other] | 1 << other
            needs &= ~seen
        ancestors.append(seen)
    return sorted(edges)


def _on_lanes(groups: Sequence[Node], lanes: int) -> tuple[float, list[int]]:
    """When the last of the groups ends, each on the lane where it can begin first, behind what
    stands there; and for each the bits of those that have ended by then."""
    free = [0.0] * lanes
    tails = [-1] * lanes
    ends: list[float] = []
    ancestors: list[int] = []
    for number, g in enumerate(groups):
        ready = max([ends[w] for w in g.waits], default=0.0)
        lane = min(
            range(lanes), key=lambda k: (max(ready, free[k]), tails[k] not in g.waits, -free[k], k)
        )
        before = {*g.waits, tails[lane]} - {-1}
        seen = 0
        for w in before:
            seen |= ancestors[w] | 1 << w
        ancestors.append(seen)
        ends.append(max(ready, free[lane]) + g.times.elapsed)
        free[lane], tails[lane] = ends[-1], number
    return max(ends), ancestors


def _beside(ancestors: Sequence[int]) -> tuple[int, ...]:
    """For each group the bits of those that are neither before it nor behind it."""
    beside = [0] * len(ancestors)
    for b, before in enumerate(ancestors):
        for a in range(b):
            if not before >> a & 1:
                beside[a] |= 1 << b
                beside[b] |= 1 << a
    return tuple(beside)


def _shared(
    thunks: Sequence[Thunk], origins: Sequence[Instruction | None], branches: Branches
) -> str:
    """The first two steps of branches that run beside each other, of which one waits for the other
    because of their memory, and that memory."""
    for a, b in execution_graph(thunks).edges:
        x, y = (branches.of.get(o.name) if (o := origins[k]) else None for k in (a, b))
        if x is None or y is None or not branches.beside[x] >> y & 1:
            continue
        for one in all_uses(thunks[a]):
            for two in all_uses(thunks[b]):
                if (one.writes or two.writes) and one.slice.overlaps(two.slice):
                    return f"{thunks[b].name} waits for {thunks[a].name}, both use {one.slice}"
    return ""


def refusal(p: Proposal, why: str) -> str:
    """Why the steps of a proposal stay one after another."""
    shares = p.shares or "their memory is shared"
    return f"{shares}; apart they would take {us(p.best_ns)}, {why}"
