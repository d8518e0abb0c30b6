"""Compiles for simulated devices: kernels for this machine's processor, cut for the device."""

from __future__ import annotations

from dataclasses import dataclass

from hloom.device.device import MemorySpace
from hloom.targets.cpu.target import CpuTarget


@dataclass(frozen=True)
class SimTarget(CpuTarget):
    """The CPU's passes and kernels for `kernel_device`, in memory spaces that are as large as they
    are. A program that names another space is refused: where values are is what is asked."""

    keeps_foreign_spaces = False

    @property
    def memories(self) -> tuple[MemorySpace, ...]:
        return self.device.memory_spaces
