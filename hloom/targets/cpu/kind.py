"""The CPU as compilation sees it before any of it is needed; what compiles is imported then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hloom.base.diagnostics import UsageError
from hloom.base.faults import Fault
from hloom.base.options import Options
from hloom.runtime.executor import Executor
from hloom.targets.cpu.options import cpu_target, options_without_effect, tuned
from hloom.targets.cpu.shown import SHOWN
from hloom.targets.target import TARGETS

if TYPE_CHECKING:
    from hloom.device.device import Device
    from hloom.ir.module import Module
    from hloom.program.c_interface import LibraryCode
    from hloom.program.c_weights import LibraryRequest
    from hloom.runtime.cache import ProgramCache
    from hloom.targets.cpu.target import CpuTarget
    from hloom.targets.stages import Stages


class CpuKind:
    """This machine's processor; its kernels cut for another device where one is named."""

    stages = tuple(SHOWN)

    def __init__(self, detail: str = "") -> None:
        """`detail`: a known device or a file; "": the one at hand."""
        self.name = f"cpu:{detail}" if detail else "cpu"
        self.kernel_device: Device | None = None
        if detail:
            from hloom.device.known import device_named

            self.kernel_device = device_named(detail)
            if self.kernel_device.kind != "cpu":
                raise UsageError(
                    f"{detail} is a {self.kernel_device.kind.upper()}, and the target is cpu",
                    rule="target",
                    hint="hloom device lists what is known",
                )

    def unread(self, options: Options) -> list[str]:
        return options_without_effect(options)

    def is_cacheable(self, options: Options) -> bool:
        from hloom.targets.cpu.cache_key import is_cacheable

        return is_cacheable(options)

    def key_parts(self, options: Options) -> dict[str, str]:
        from hloom.targets.cpu.cache_key import device_text, other_parts

        return {**other_parts(options), "device": device_text(self.kernel_device)}

    def target(
        self, options: Options, threads: int | None = None, cache: ProgramCache | None = None
    ) -> CpuTarget:
        object_cache = cache.objects if cache is not None else None
        base = replace(cpu_target(options, threads), object_cache=object_cache)
        if self.kernel_device is not None:
            base = replace(base, kernel_device=self.kernel_device)
        return tuned(base, options, threads)

    def executor(self, stages: Stages, threads: int | None = None) -> Executor:
        return Executor(stages.program, threads)

    def library(self, module: Module, asked: LibraryRequest, options: Options) -> LibraryCode:
        from hloom.targets.cpu.library import library_code

        return library_code(self.target(options, 1), module, asked)

    def notice(self, module: Module, options: Options, faults: Sequence[Fault]) -> str:
        from hloom.targets.cpu.fault_notice import notice

        return notice(module, options, faults)


TARGETS.add("cpu", CpuKind)
