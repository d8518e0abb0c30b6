"""What partitioning a program brings in: every collective and why, what is computed more than once.

A collective is told with the instruction of the program that it was made for, those of a loop as
often as it runs. What no collective is left of (later passes found it dead) is not told.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hloom.analysis.communication import Communication, communications
from hloom.analysis.mesh_names import named_mesh
from hloom.base.diagnostics import UsageError
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.passes.partition.notes import Replicated
from hloom.passes.partition.shardy_xla import prepare
from hloom.passes.partition.spmd_partitioner import (
    count_partitions,
    is_partitionable,
    partition_module,
)
from hloom.passes.simplify.dce import DeadCodeElimination
from hloom.types.mesh import MeshAxes


@dataclass(frozen=True)
class InsertedCollective:
    """A collective of the partitioned program: for which instruction of the whole one, why, and
    what it moves."""

    name: str
    opcode: str
    why: str
    communication: Communication


@dataclass(frozen=True)
class ExplainedPartition:
    """What became of a program; `module` is what each device runs."""

    module: Module
    inserted: list[InsertedCollective]
    """Most bytes first."""
    replicated: list[Replicated]

    @property
    def bytes(self) -> float:
        """What a device receives in one run."""
        return sum([r.communication.total_bytes for r in self.inserted])


def explained_partition(module: Module, mesh: MeshAxes | None = None) -> ExplainedPartition:
    """Partition a copy of a module, as `partitioned` does, and say what came in. `mesh`: whose axes
    name the devices, if not that of the shardings."""
    cut = copy_module(module)
    count_partitions(cut)
    if not is_partitionable(cut):
        raise UsageError(
            "there is nothing to partition here",
            rule="partition",
            hint="it needs shardings of several devices, and no collectives but in regions "
            "that the shardings call manual",
        )
    if mesh is not None and mesh.device_count != cut.num_partitions:
        raise UsageError(
            f"the mesh has {mesh.device_count} devices, the program {cut.num_partitions} "
            "partitions",
            rule="partition",
        )
    prepare(cut)
    mesh = mesh or named_mesh(cut)
    run = partition_module(cut, Counter())
    DeadCodeElimination().run(cut)
    left = {r.instruction: r for r in communications(cut, mesh)}
    inserted = [
        InsertedCollective(r.name, r.opcode, r.why, left[r.collective])
        for r in run.inserted
        if r.collective in left
    ]
    inserted.sort(key=lambda r: -r.communication.total_bytes)
    return ExplainedPartition(cut, inserted, sorted(run.replicated, key=lambda r: -r.bytes))
