"""What compilation asks of a target, and the targets there are.

A `TargetKind` is what is known without a compiler: its options, and on what a program in the cache
depends. It makes a `Target`, a device with all that the options decide. `compiler.py` knows these
two only; a target is a folder of this room whose `kind.py` registers itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Protocol

from hloom.base.diagnostics import UsageError, did_you_mean
from hloom.base.options import Options
from hloom.base.registry import Registry

if TYPE_CHECKING:
    from hloom.base.clock import StageClock
    from hloom.base.faults import Fault
    from hloom.device.device import Device
    from hloom.ir.module import Module
    from hloom.program.c_interface import LibraryCode
    from hloom.program.c_weights import LibraryRequest
    from hloom.runtime.cache import ProgramCache
    from hloom.runtime.communicator.in_process import InProcess
    from hloom.runtime.executor import Executor
    from hloom.targets.stages import Stages


class Target(Protocol):
    """A device to compile for, and how."""

    @property
    def device(self) -> Device:
        """What decisions by sizes and rates ask."""
        ...

    @property
    def is_strict(self) -> bool:
        """Whether faults of hloom are raised as they are; else they are gone around."""
        ...

    def check(self, module: Module) -> None:
        """Raise for a module that this target cannot run; asked before anything else is done."""
        ...

    def compiled(self, module: Module, clock: StageClock, fault: Exception | None = None) -> Stages:
        """All stages of a verified module, which is not changed. `fault`: why the code that was
        made before could not be loaded."""
        ...

    def written(self, module: Module) -> Stages:
        """All stages but machine code, of a module that is changed."""
        ...

    def text(self, stages: Stages, stage: str) -> str:
        """A stage of compilation as text."""
        ...

    def debug(
        self,
        stages: Stages,
        executor: Any,
        leaves: Sequence[Sequence[Any]],
        together: InProcess | None,
        **watched: bool,
    ) -> list[Any]:
        """Run step by step on each device, and watch (`Executable.debug`)."""
        ...


class TargetKind(Protocol):
    """A kind of target, by what is known without compiling."""

    @property
    def name(self) -> str:
        """As `hloom.compile(target=)` has it."""
        ...

    @property
    def stages(self) -> Sequence[str]:
        """What can be shown, in the order in which compilation makes it."""
        ...

    def unread(self, options: Options) -> list[str]:
        """The options that were given and that it does not act on."""
        ...

    def is_cacheable(self, options: Options) -> bool:
        """Whether a program may come from the cache."""
        ...

    def key_parts(self, options: Options) -> dict[str, str]:
        """Name and value of all that a program depends on, but the module."""
        ...

    def target(
        self, options: Options, threads: int | None = None, cache: ProgramCache | None = None
    ) -> Target:
        """The target as options want it; `threads`: all that may work, None: what is granted.
        `cache`: where parts of a program may come from and go to."""
        ...

    def executor(self, stages: Stages, threads: int | None = None) -> Executor:
        """What runs a program of this kind."""
        ...

    def library(self, module: Module, asked: LibraryRequest, options: Options) -> LibraryCode:
        """A module, which is not changed, as the code of a function of a C library;
        `HloError` where it needs a runtime."""
        ...

    def notice(self, module: Module, options: Options, faults: Sequence[Fault]) -> str:
        """What a user is told where a program was compiled in spite of faults of hloom."""
        ...


TARGETS: Registry[str, Callable[[str], TargetKind]] = Registry("target")
"""By name; what stands behind the colon of `cpu:x86-64-v4` is handed to it, "" where there is
none."""
DEFAULT = "cpu"
_ROOM = "hloom.targets"


@cache
def target_kind(text: str) -> TargetKind:
    """The kind that a text names: `cpu`, or with the device after a colon; `UsageError` if there
    is none."""
    name, _, detail = text.partition(":")
    if name not in TARGETS:
        known = names()
        if name not in known:
            hint = did_you_mean(name, known) or f"there is {', '.join(known)}"
            raise UsageError(f"no target {name!r}", rule="target", hint=hint)
        import_module(f"{_ROOM}.{name}.kind")
    return TARGETS[name](detail)


def names() -> list[str]:
    """Of all targets: of the folders here, and what was registered otherwise. A folder's `kind.py`
    is imported when somebody names it."""
    folders = [m.name for m in iter_modules(import_module(_ROOM).__path__) if m.ispkg]
    return sorted({*folders, *TARGETS})
