"""Shardings for what a program leaves open, found by search: `hloom partition` as a pass.

A program is partitioned for a mesh and priced by the time that a described device takes for it,
with the communication that nothing hides; of equal times the one whose arguments take less memory
is better. What is assigned is what costs: arguments, the result, and products and convolutions in
between; `sharding-propagation` says the rest.
"""

from __future__ import annotations

from collections import Counter

from hloom.analysis.communication import communications
from hloom.analysis.step_time import step_time
from hloom.base.diagnostics import UsageError
from hloom.device.known import device_named
from hloom.device.topology import alike
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import CONTRACTS
from hloom.passes.partition.propose import proposed
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.rewrite.driver import Trace
from hloom.types.mesh import MOST_DEVICES, MeshAxes
from hloom.types.sizes import moved_bytes

_COSTLY = opcodes(CONTRACTS)


@register
class PartitionAssignment(Pass):
    """Assign shardings to arguments, results, products and convolutions, by predicted time."""

    name = "partition-assignment"

    mesh: str = ""
    """How many devices along each axis, `4x2`; nothing: all partitions along one."""
    device: str = "h100"
    """A known device, whose times decide."""
    seconds: float = 60.0
    """How long to search."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        mesh = self._mesh(module)
        if not 2 <= mesh.device_count <= MOST_DEVICES:
            return PassResult()
        if module.is_scheduled or module.spmd_parameters_shardings:
            return PassResult()
        topology = alike(device_named(self.device), mesh.device_count)
        memory = topology.members[0].device.memory_spaces[0]

        def price(cut: Module) -> float:
            held = sum([moved_bytes(p.shape) for p in cut.entry.parameters])
            rows = communications(cut, mesh)
            return step_time(cut, topology, rows).total_ns + 0.1 * memory.read_ns(held)

        proposal = proposed(copy_module(module), mesh, price, self.seconds).module
        fired: Counter[str] = Counter()
        if module.num_partitions != mesh.device_count:
            module.num_partitions = mesh.device_count
            fired["partitions"] += 1
        assigned = {(i.parent.name, i.name): i.sharding for i in proposal.instructions()}
        for i in module.instructions():
            is_end = i.parent.is_entry and (i.opcode == "parameter" or i.is_root)
            sharding = assigned.get((i.parent.name, i.name))
            if (is_end or i.opcode in _COSTLY) and i.sharding is None and sharding is not None:
                i.sharding = sharding
                fired[i.opcode if i.opcode in _COSTLY else "ends"] += 1
        return PassResult.of(+fired)

    def _mesh(self, module: Module) -> MeshAxes:
        sizes = self.mesh.split("x") if self.mesh else [str(module.num_partitions)]
        if not all(s.isdigit() and int(s) for s in sizes):
            raise UsageError(
                f"{self.mesh!r} is no mesh", rule="pass-option", hint="write 4x2 or 8, say"
            )
        return MeshAxes(tuple([(f"axis{k}", int(s)) for k, s in enumerate(sizes)]))
