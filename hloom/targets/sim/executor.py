"""A program ready to run on simulated devices, called as any other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.base.diagnostics import UsageError
from hloom.device.topology import Topology
from hloom.program.thunks.collective import CollectiveDone
from hloom.program.thunks.thunk import walk
from hloom.runtime.buffer import Buffer
from hloom.runtime.communicator.in_process import InProcess
from hloom.runtime.execute_options import Launch
from hloom.runtime.executor import Executor
from hloom.targets.sim.simulate import Disturbance, Simulation, Timeline
from hloom.targets.sim.streams import StreamAssignment, stream_assignment
from hloom.targets.sim.times import ThunkTimes
from hloom.targets.stages import Stages

UNDISTURBED = Disturbance()


class SimExecutor(Executor):
    """Runs on devices of a topology: those that the device assignment names."""

    def __init__(self, stages: Stages, topology: Topology, threads: int | None = None) -> None:
        super().__init__(stages.program, threads)
        program = stages.program
        self.count = program.device_count
        if self.count > len(topology):
            raise UsageError(
                f"{program.name} is for {self.count} devices, and {topology.name} has "
                f"{len(topology)}",
                rule="target",
                hint="name a topology of that many devices",
            )
        self.topology = topology
        self.stages = stages
        device = topology.members[0].device
        self.times = ThunkTimes(stages, device)
        self.stream_assignment: StreamAssignment = stream_assignment(
            program.thunks, device, self.times
        )
        self.ends = {
            t.operation.number: t for t in walk(program.thunks) if isinstance(t, CollectiveDone)
        }
        """The second halves of collectives."""
        self.timeline = Timeline(topology)
        """Of the last run."""
        self.numbers: dict[tuple[int, ...], Any] = {}
        """Of arguments of thunks, for all devices and runs."""

    def run(self, leaves: Sequence[Any], entry: int | None = None) -> list[Buffer | None]:
        """As any executor; a program that does not meet other devices runs on the first one."""
        if entry is not None:
            return super().run(leaves, entry)
        return self.simulated(None, [leaves])[0]

    def run_launch(self, leaves: Sequence[Any], launch: Launch) -> list[Buffer | None]:
        raise UsageError(
            f"{self.program.name} is for simulated devices, which run all at once",
            rule="device-count",
            hint="run_devices takes arguments for each of them",
        )

    def run_devices(
        self, devices: InProcess, leaves: Sequence[Sequence[Any]], entry: int | None = None
    ) -> list[list[Buffer | None]]:
        if entry is not None:
            return super().run_devices(devices, leaves, entry)
        return self.simulated(devices, leaves)

    def simulated(
        self,
        together: InProcess | None,
        leaves: Sequence[Sequence[Any]],
        disturbance: Disturbance = UNDISTURBED,
    ) -> list[list[Buffer | None]]:
        """The results of every device, for the arguments of each."""
        run = Simulation(self, together, disturbance)
        results = run.run(leaves)
        self.timeline = run.timeline
        return results
