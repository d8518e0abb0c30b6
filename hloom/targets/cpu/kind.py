"""The CPU as compilation sees it before any of it is needed; what compiles is imported then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hloom.base.faults import Fault
from hloom.base.options import Options
from hloom.targets.cpu.cache_key import is_cacheable, other_parts
from hloom.targets.cpu.options import cpu_target, options_without_effect
from hloom.targets.cpu.shown import SHOWN
from hloom.targets.target import TARGETS

if TYPE_CHECKING:
    from hloom.ir.module import Module
    from hloom.targets.cpu.target import CpuTarget


class CpuKind:
    """This machine's processor."""

    name = "cpu"
    stages = tuple(SHOWN)

    def unread(self, options: Options) -> list[str]:
        return options_without_effect(options)

    def is_cacheable(self, options: Options) -> bool:
        return is_cacheable(options)

    def key_parts(self, options: Options) -> dict[str, str]:
        return other_parts(options)

    def target(self, options: Options, threads: int | None = None) -> CpuTarget:
        return cpu_target(options, threads)

    def notice(self, module: Module, options: Options, faults: Sequence[Fault]) -> str:
        from hloom.targets.cpu.fault_notice import notice

        return notice(module, options, faults)


TARGETS.add(CpuKind.name, CpuKind())
