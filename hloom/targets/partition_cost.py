"""What a partitioned program costs on described devices: bytes, time, memory of one device.

    cost = partition_cost(partitioned(module), topology_named("h100"))
    cost.received_bytes, cost.step.exposed_ns, cost.peak_bytes

Times are predictions (`analysis/step_time.py`). `peak_bytes` is what arguments and the most values
alive at one time take before anything is fused: no less than what a compiled program needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloom.analysis.communication import Communication, Traffic, communications, summed
from hloom.analysis.mesh_names import named_mesh
from hloom.analysis.step_time import StepTime, step_time
from hloom.device.topology import Topology, alike
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.passes.partition.other_meshes import other_meshes
from hloom.passes.partition.propose import Proposal, proposed
from hloom.passes.partition.whole_program import partitioned
from hloom.schedule.least_memory import peak_bytes_of
from hloom.targets.cpu.device import host_device
from hloom.types.mesh import MeshAxes
from hloom.types.sizes import moved_bytes


@dataclass(frozen=True)
class PartitionCost:
    """What each device of a program has to do and to hold."""

    rows: list[Communication]
    step: StepTime
    argument_bytes: int
    peak_bytes: int

    @property
    def received_bytes(self) -> float:
        """What a device receives in one run."""
        return sum([r.total_bytes for r in self.rows])

    @property
    def by_kind(self) -> list[Traffic]:
        return summed(self.rows, lambda r: r.kind, self.step.collectives)

    @property
    def by_axis(self) -> list[Traffic]:
        return summed(self.rows, lambda r: r.axis, self.step.collectives)

    @property
    def by_place(self) -> list[Traffic]:
        """By line of the source, where programs name some."""
        return summed(self.rows, lambda r: r.place or "(not said)", self.step.collectives)


def partition_cost(
    module: Module, topology: Topology | None = None, mesh: MeshAxes | None = None
) -> PartitionCost:
    """Of what each device runs; `topology`: this machine, if nothing is said. `mesh` names the axes
    of devices, if the shardings of the module do not."""
    rows = communications(module, mesh or named_mesh(module))
    step = step_time(module, topology or alike(host_device(), 1), rows)
    arguments = sum([moved_bytes(p.shape) for p in module.entry.parameters])
    return PartitionCost(rows, step, arguments, arguments + peak_bytes_of(module))


def costs_of_meshes(
    module: Module, topology: Topology | None = None
) -> list[tuple[MeshAxes, PartitionCost]]:
    """The cost of a program of whole arrays on every mesh of as many devices and axes, the least
    time first; shardings mean the same axes of each."""
    priced = []
    for mesh, other in other_meshes(module):
        priced.append((mesh, partition_cost(partitioned(other), topology, mesh)))
    return sorted(priced, key=lambda pair: pair[1].step.total_ns)


PENALTY_OF_NO_ROOM = 1e15
"""What a program costs for each time that it needs the memory of a device beyond the first."""


def proposed_shardings(
    module: Module, mesh: MeshAxes, topology: Topology | None = None, seconds: float = 60.0
) -> Proposal:
    """Shardings of a program's arguments that cost least, as far as a search of so many seconds
    gets; those that the program states are kept. The module is not changed."""
    topology = topology or alike(host_device(), 1)
    memory = topology.members[0].device.memory_spaces[0]

    def price(cut: Module) -> float:
        cost = partition_cost(cut, topology, mesh)
        # Of equal times, less memory; what does not fit counts above all.
        over = max(0.0, cost.peak_bytes / memory.size_bytes - 1) if memory.size_bytes else 0.0
        return (
            cost.step.total_ns + 0.1 * memory.read_ns(cost.peak_bytes) + over * PENALTY_OF_NO_ROOM
        )

    return proposed(copy_module(module), mesh, price, seconds)
