"""Simulated devices as compilation sees them before any of it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from hloom.base.diagnostics import UsageError
from hloom.base.faults import Fault
from hloom.base.options import Options
from hloom.device.text import show_device
from hloom.device.topology import topology_named
from hloom.targets.cpu.cache_key import other_parts
from hloom.targets.cpu.options import TUNING_OPTIONS, cpu_target, options_without_effect
from hloom.targets.cpu.shown import SHOWN
from hloom.targets.target import TARGETS

if TYPE_CHECKING:
    from hloom.ir.module import Module
    from hloom.program.c_interface import LibraryCode
    from hloom.program.c_weights import LibraryRequest
    from hloom.runtime.cache import ProgramCache
    from hloom.runtime.executor import Executor
    from hloom.targets.sim.target import SimTarget
    from hloom.targets.stages import Stages


class SimKind:
    """The devices of a topology, or one device, run on this machine."""

    stages = tuple(SHOWN)

    def __init__(self, detail: str = "") -> None:
        """`detail`: a known device or topology, or a file that describes one; "": `sim`."""
        self.name = f"sim:{detail}" if detail else "sim"
        self.topology = topology_named(detail or "sim")
        self.device = self.topology.members[0].device
        for member in self.topology:
            if member.device != self.device:
                raise UsageError(
                    f"{self.topology.name} has devices that differ, {self.device.name} and "
                    f"{member.device.name}: one program cannot be cut for both",
                    rule="target",
                    hint="name a topology of devices that are alike",
                )

    def unread(self, options: Options) -> list[str]:
        """Nothing is tuned for devices that are not here, beside what no CPU acts on."""
        tuning = [name for name in TUNING_OPTIONS if name in options.given]
        return [*options_without_effect(options), *tuning]

    def is_cacheable(self, options: Options) -> bool:
        """Times follow from the optimised graph, which a program from the cache lacks."""
        return False

    def key_parts(self, options: Options) -> dict[str, str]:
        return {**other_parts(options), "device": show_device(self.device)}

    def target(
        self, options: Options, threads: int | None = None, cache: ProgramCache | None = None
    ) -> SimTarget:
        from hloom.targets.sim.target import SimTarget

        cpu = cpu_target(options, threads)
        same = {f.name: getattr(cpu, f.name) for f in fields(cpu)}
        same["object_cache"] = cache.objects if cache is not None else None
        # What runs side by side follows from the streams of the device, thunk by thunk.
        return SimTarget(**{**same, "kernel_device": self.device, "scheduler": "memory"})

    def executor(self, stages: Stages, threads: int | None = None) -> Executor:
        from hloom.targets.sim.executor import SimExecutor

        return SimExecutor(stages, self.topology, threads)

    def library(self, module: Module, asked: LibraryRequest, options: Options) -> LibraryCode:
        raise UsageError(
            f"{self.name} is simulated, and no machine runs a C library for it",
            rule="target",
            hint="--target cpu:NAME compiles for a known device",
        )

    def notice(self, module: Module, options: Options, faults: Sequence[Fault]) -> str:
        from hloom.targets.cpu.fault_notice import notice

        return notice(module, options, faults)


TARGETS.add("sim", SimKind)
