"""How long a program of several devices takes on a described one, and how much of its communication
nothing hides: a prediction.

Each computation is played once on two engines, one that computes and one that communicates. What is
ready first in the order of the program is next; collectives begin when their operands are there and
end beside the computation. Where what computes has to wait for a collective, that time is
*exposed*. Elementwise operations are taken to be fused, so they cost what they compute and move
nothing by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from hloom.analysis.communication import Communication
from hloom.analysis.cost import NO_WORK, ModuleCost, instruction_cost, module_cost
from hloom.device.ids import GlobalDeviceId
from hloom.device.timing import collective_ns, kernel_ns
from hloom.device.topology import Topology, alike
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import CONTRACTS, CONTROL_FLOW, ELEMENTWISE, FORWARDS

_CONTROL = opcodes(CONTROL_FLOW)
_CONTRACTS = opcodes(CONTRACTS)
_FUSED = opcodes(ELEMENTWISE, also=("broadcast", "iota", "reshape", "pad", "slice", "concatenate"))
_NAMES = opcodes(FORWARDS)


@dataclass
class StepTime:
    """Nanoseconds of one run on one device."""

    total_ns: float
    compute_ns: float
    communication_ns: float
    """Of all collectives, one after the other."""
    exposed_ns: float
    collectives: dict[Instruction, tuple[float, float]] = field(default_factory=dict)
    """Of each in all runs: how long it takes, how much of that is exposed."""


def step_time(module: Module, topology: Topology, rows: Sequence[Communication]) -> StepTime:
    """The time of a partitioned module; `rows` are its `communications`. The devices of a topology
    that has fewer are taken to be more of the first one."""
    return _Played(module, topology, rows).run()


class _Played:
    def __init__(self, module: Module, topology: Topology, rows: Sequence[Communication]) -> None:
        self.module = module
        named = [d + 1 for r in rows for d in r.members]
        n = max([module.replica_count * module.num_partitions, *named])
        self.topology = topology if len(topology) >= n else alike(topology.members[0].device, n)
        self.device = self.topology.members[0].device
        self.cost: ModuleCost = module_cost(module, self.device.costs)
        self.ns = {r.instruction: self._collective_ns(r) for r in rows}
        self.lengths: dict[Computation, float] = {}
        self.exposed: dict[Instruction, float] = {}
        self.computed: dict[Computation, float] = {}

    def run(self) -> StepTime:
        runs = self.cost.executions
        for c in self.module.computations_in_order():
            if runs.get(c, 0.0):
                self.lengths[c] = self._play(c)
        each = {
            i: (ns * runs.get(i.parent, 0.0), self.exposed.get(i, 0.0) * runs.get(i.parent, 0.0))
            for i, ns in self.ns.items()
        }
        return StepTime(
            total_ns=self.lengths[self.module.entry],
            compute_ns=sum([ns * runs.get(c, 0.0) for c, ns in self.computed.items()]),
            communication_ns=sum([ns for ns, _ in each.values()]),
            exposed_ns=sum([ns for _, ns in each.values()]),
            collectives=each,
        )

    def _collective_ns(self, row: Communication) -> float:
        kind = "permute" if row.kind == "collective-permute" else row.kind
        members = tuple([GlobalDeviceId(d) for d in row.members])
        return collective_ns(self.topology, members, row.message_bytes, kind)

    def _instruction_ns(self, i: Instruction) -> float:
        """What computes an instruction takes; what it calls has been played before."""
        if i.opcode == "while":
            trips = self.cost.loops[i].count
            condition, body = [self.lengths.get(c, 0.0) for c in i.called]
            return (condition + body) * (1 if trips is None else trips) + condition
        if i.opcode in _CONTROL:
            return max([self.lengths.get(c, 0.0) for c in i.called], default=0.0)
        if i.opcode in NO_WORK or i.opcode in _NAMES:
            return 0.0
        cost = instruction_cost(i, self.cost.per_computation, None, self.device.costs)
        leaf = next(iter(i.shape.leaves()), None)
        name = leaf.dtype.name if leaf is not None and leaf.is_array else "f32"
        if i.opcode in _FUSED:
            work = kernel_ns(self.device, cost.flops, {}, name) - self.device.costs.kernel_ns
        else:
            is_matrix = i.opcode in _CONTRACTS
            work = kernel_ns(self.device, cost.flops, {0: cost.bytes}, name, is_matrix)
        return work + cost.functions * self.device.costs.operation_ns / self.device.compute.units

    def _play(self, c: Computation) -> float:
        """How long a computation takes; what is exposed of its collectives is kept."""
        order = c.in_order()
        number = {i: k for k, i in enumerate(order)}
        left = [len(set(i.operands + i.control_predecessors)) for i in order]
        ready = [0.0] * len(order)
        busy: list[tuple[float, float, Instruction]] = []
        """When what was communicated, one behind the other."""
        waiting: list[tuple[float, int]] = []
        able: list[int] = []
        now = link = computed = last = 0.0

        def ended(k: int, at: float) -> None:
            nonlocal last
            last = max(last, at)
            for u in {*order[k].users, *order[k].control_successors}:
                n = number[u]
                left[n] -= 1
                ready[n] = max(ready[n], at)
                if not left[n]:
                    heappush(waiting, (ready[n], n))

        for k in range(len(order)):
            if not left[k]:
                waiting.append((0.0, k))
        while waiting or able:
            while waiting and waiting[0][0] <= now:
                heappush(able, heappop(waiting)[1])
            if not able:
                at = waiting[0][0]
                self._expose(busy, now, at)
                now = at
                continue
            k = heappop(able)
            i = order[k]
            if i in self.ns:
                start = max(link, ready[k])
                link = start + self.ns[i]
                busy.append((start, link, i))
                ended(k, link)
                continue
            ns = self._instruction_ns(i)
            if ns == 0:
                ended(k, ready[k])
                continue
            now += ns
            computed += 0.0 if i.opcode in _CONTROL else ns
            ended(k, now)
        self._expose(busy, now, last)
        self.computed[c] = computed
        return max(now, last)

    def _expose(
        self, busy: list[tuple[float, float, Instruction]], low: float, high: float
    ) -> None:
        """Nothing is computed from `low` to `high`: what is communicated then is exposed."""
        for start, end, i in reversed(busy):
            if end <= low:
                break
            both = min(end, high) - max(start, low)
            if both > 0:
                self.exposed[i] = self.exposed.get(i, 0.0) + both
