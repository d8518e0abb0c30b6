"""Which parts of a program run side by side: sequences of thunks become sets of runs.

A sequence is cut only where that saves enough time, by the costs of the device. What saves time
are thunks that leave cores idle for long: a factorisation, a custom call, a loop of small steps.
Kernels that use all cores gain nothing from company.

How: chains of thunks become one node each. A node is *heavy* if it leaves cores idle for long.
Nodes that come behind the same heavy ones, and before the same heavy ones, are one run: they take
little time, or use all cores, so nobody loses by waiting for all of them; each heavy node is a run
of its own. A run waits for those that hold what its thunks wait for. That gives no cycle: along a
wait the set of heavy nodes before only grows, and that of those behind only shrinks, and where
neither does both ends are in one run.

What was decided is kept with its reason for every sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from hloom.device.costs import Costs
from hloom.device.device import Device
from hloom.program.graph import execution_graph
from hloom.program.thunks.concurrent import Concurrent, Run
from hloom.program.thunks.thunk import Thunk

WAITS = "each step waits for the one before"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the parts of one sequence run side by side."""

    where: str
    """`main`, or the name of a thunk and of its sequence."""
    runs: int
    """0: one after another."""
    why: str
    is_open: bool = False
    """Whether time would be saved, were it not for what waits for what."""
    expected_ns: float = 0.0
    """What the sequence takes as it was decided."""
    steps: tuple[Thunk, ...] = field(default=(), repr=False)
    """The sequence, as it came."""

    def because(self, why: str) -> Decision:
        """The same, for another reason."""
        return replace(self, why=why)

    def __str__(self) -> str:
        if not self.runs:
            return f"{self.where}: not concurrent: {self.why}"
        return f"{self.where}: {self.runs} runs: {self.why}"


def with_runs(
    thunks: Sequence[Thunk], device: Device, where: str = "main"
) -> tuple[tuple[Thunk, ...], list[Decision]]:
    """The thunks, with `Concurrent` in place of a sequence, or of one inside, where that pays."""
    decisions: list[Decision] = []
    inside = []
    for t in thunks:
        parts = t.nested()
        nested_runs = [with_runs(p.thunks, device, f"{t.name}, {p.name}") for p in parts]
        for _, more in nested_runs:
            decisions += more
        changed = any(new != p.thunks for (new, _), p in zip(nested_runs, parts))
        inside.append(t.with_nested([new for new, _ in nested_runs]) if changed else t)
    runs, decision = _cut(tuple(inside), device, where)
    return runs, [replace(decision, steps=tuple(thunks)), *decisions]


def _cut(
    thunks: tuple[Thunk, ...], device: Device, where: str
) -> tuple[tuple[Thunk, ...], Decision]:
    """One sequence, whole or as runs."""
    costs, units = device.costs, device.compute.units

    def refused(why: str, open_ns: float = 0.0) -> tuple[tuple[Thunk, ...], Decision]:
        return thunks, Decision(where, 0, why, open_ns > 0, open_ns)

    if len(thunks) < 2:
        return refused("there is one step at most")
    if units < 2:
        return refused("there is one core")
    times = [Times.of(t, costs, units) for t in thunks]
    whole = Times.sum(times)
    total, gain = whole.elapsed, whole.least_gain(costs)
    if whole.idle(units) < gain:
        return refused(f"cores are idle for {us(whole.idle(units))} of {us(total)} at most")
    groups = grouped(times, execution_graph(thunks).edges, costs, units)
    if len(groups) < 2:
        return refused(WAITS, total)
    best = max(_longest(groups), whole.work / units)
    if total - best < gain:
        why = f"side by side they would take {us(best)} instead of {us(total)}"
        return refused(why, total)
    runs = _runs(groups, thunks)
    name = f"{thunks[0].name}.runs"
    why = f"about {us(best)} instead of {us(total)}"
    return (Concurrent(name, runs),), Decision(where, len(runs), why, True, best)


def us(ns: float) -> str:
    return f"{ns / 1000:,.0f} us"


@dataclass(frozen=True, slots=True)
class Times:
    """Of a thunk, or several: with all cores, and the work of all threads together; ns."""

    elapsed: float
    work: float

    @staticmethod
    def of(t: Thunk, costs: Costs, units: int) -> Times:
        elapsed = t.elapsed_ns(costs, units)
        # A loop of unknown length has no serial time: what it does at once is all that is known.
        work = min(t.serial_ns(costs), t.elapsed_ns(costs, 1))
        return Times(elapsed, work)

    @staticmethod
    def sum(times: Sequence[Times]) -> Times:
        return Times(sum([t.elapsed for t in times]), sum([t.work for t in times]))

    def least_gain(self, costs: Costs) -> float:
        """What has to be saved where these come one after another."""
        return max(costs.concurrency_gain_ns, costs.concurrency_gain * self.elapsed)

    def idle(self, units: int) -> float:
        """For how long all cores together could have done something else, divided among them."""
        return self.elapsed - self.work / units

    def __add__(self, other: Times) -> Times:
        return Times(self.elapsed + other.elapsed, self.work + other.work)


@dataclass(slots=True)
class Node:
    """Steps by position, and the nodes that they wait for."""

    members: list[int]
    times: Times
    waits: set[int] = field(default_factory=set)


def grouped(
    times: Sequence[Times], edges: Sequence[tuple[int, int]], costs: Costs, units: int
) -> list[Node]:
    """The steps of a sequence in groups, in a valid order; one alone where all are a chain."""
    return _together(_chains(times, edges), costs, units)


def _chains(times: Sequence[Times], edges: Sequence[tuple[int, int]]) -> list[Node]:
    """Nodes in order: steps of which each waits for the one before alone, which has no other."""
    before: list[list[int]] = [[] for _ in times]
    behind = [0] * len(times)
    for a, b in edges:
        before[b].append(a)
        behind[a] += 1
    nodes: list[Node] = []
    node_of: list[int] = []
    for number in range(len(times)):
        waits = before[number]
        if len(waits) == 1 and behind[waits[0]] == 1:
            at = node_of[waits[0]]
            nodes[at].members.append(number)
            nodes[at].times += times[number]
        else:
            at = len(nodes)
            nodes.append(Node([number], times[number], {node_of[x] for x in waits}))
        node_of.append(at)
    return nodes


def _together(nodes: list[Node], costs: Costs, units: int) -> list[Node]:
    """Nodes put together that have the same heavy ones before and behind them; in a valid order."""
    heavy = [n.times.idle(units) >= costs.run_ns and n.times.elapsed > 0 for n in nodes]
    before = [0] * len(nodes)
    behind = [0] * len(nodes)
    for k, n in enumerate(nodes):
        for w in n.waits:
            before[k] |= before[w] | (heavy[w] << w)
    for k in range(len(nodes) - 1, -1, -1):
        for w in nodes[k].waits:
            behind[w] |= behind[k] | (heavy[k] << k)
    number_of: dict[tuple[int, ...], int] = {}
    groups: list[Node] = []
    group_of: list[int] = []
    for k, n in enumerate(nodes):
        key = (k,) if heavy[k] else (before[k], behind[k])
        g = number_of.setdefault(key, len(groups))
        group_of.append(g)
        if g == len(groups):
            groups.append(Node([], Times(0.0, 0.0)))
        groups[g].members += n.members
        groups[g].times += n.times
        groups[g].waits |= {group_of[w] for w in n.waits}
    for g, group in enumerate(groups):
        group.waits.discard(g)
        group.members.sort()
    return _ordered(groups)


def _ordered(groups: list[Node]) -> list[Node]:
    """The groups so that each waits for earlier ones only, and otherwise as their thunks stood."""
    behind: list[list[int]] = [[] for _ in groups]
    left = [len(g.waits) for g in groups]
    for k, g in enumerate(groups):
        for w in g.waits:
            behind[w].append(k)
    ready = [(g.members[0], k) for k, g in enumerate(groups) if not left[k]]
    heapify(ready)
    place: dict[int, int] = {}
    order: list[Node] = []
    while ready:
        _, k = heappop(ready)
        place[k] = len(order)
        group = groups[k]
        order.append(Node(group.members, group.times, {place[w] for w in group.waits}))
        for b in behind[k]:
            left[b] -= 1
            if not left[b]:
                heappush(ready, (groups[b].members[0], b))
    assert len(order) == len(groups)
    return order


def _longest(groups: list[Node]) -> float:
    """The time of the longest way through them."""
    ends: list[float] = []
    for g in groups:
        ends.append(max([ends[w] for w in g.waits], default=0.0) + g.times.elapsed)
    return max(ends)


def _runs(groups: list[Node], thunks: tuple[Thunk, ...]) -> tuple[Run, ...]:
    """The runs of groups in order: waits that follow from others are left out, and each gets a
    stream, that of a run before it where nobody has followed there yet."""
    ancestors: list[int] = []
    last: list[int] = []
    runs: list[Run] = []
    for number, g in enumerate(groups):
        seen = 0
        waits: list[int] = []
        for w in sorted(g.waits, reverse=True):
            if not seen >> w & 1:
                waits.append(w)
                seen |= ancestors[w] | 1 << w
        ancestors.append(seen)
        free = [s for s, tail in enumerate(last) if seen >> tail & 1]
        stream = next((s for s in free if last[s] in waits), free[0] if free else len(last))
        if stream == len(last):
            last.append(number)
        last[stream] = number
        inside = tuple([thunks[k] for k in g.members])
        runs.append(Run(inside, tuple(sorted(waits)), stream))
    return tuple(runs)
