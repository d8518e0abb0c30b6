"""The spine: from a module to something that runs, on a target that it does not know."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hloom.base.alarm import slow_alarm
from hloom.base.clock import StageClock
from hloom.base.collection import paused_collection
from hloom.base.diagnostics import HloError, UsageError
from hloom.base.faults import CompilerFaultWarning, Fault
from hloom.base.options import Options
from hloom.executable import CompilationResult, Executable
from hloom.program.interface_names import InterfaceNames
from hloom.program.saved import program_to_bytes
from hloom.runtime.cache import CacheAnswer, ProgramCache, program_cache
from hloom.runtime.communicator.patience import Patience
from hloom.runtime.native import LoadError
from hloom.runtime.program_files import is_loadable, read_program, write_program
from hloom.targets.cache_key import differences, key_parts, other_parts
from hloom.targets.stages import LaterStages, SavedStages, Stages
from hloom.targets.target import DEFAULT, Target, TargetKind, target_kind

if TYPE_CHECKING:
    from hloom.frontends.source import Source
    from hloom.ir.module import Module
    from hloom.program.c_interface import LibraryCode
    from hloom.program.c_weights import LibraryRequest
    from hloom.program.program import Program


def compile_module(
    module: Module,
    threads: int | None = None,
    options: Options | None = None,
    *,
    target: str = DEFAULT,
    progress: Callable[[str], None] | None = None,
    cached: bool = True,
    warn: Callable[[str], None] | None = None,
) -> Executable:
    """A program for a target, of a module, which is not changed.

    `progress` is told the name of every stage as it begins. `cached` allows the program to come
    from the cache on disk, and to go there. Raises `HloError` for what is not
    well formed or cannot run here. Faults of hloom are gone around, with one warning
    (`CompilerFaultWarning`, or what `warn` does). Interrupting it (Ctrl-C) leaves nothing behind.
    """
    from hloom.frontends.source import Source  # which loading a saved program does without

    source = Source.of_module(module)
    return compile_source(
        source, threads, options, target=target, progress=progress, cached=cached, warn=warn
    )


def compile_source(
    source: Source,
    threads: int | None = None,
    options: Options | None = None,
    *,
    target: str = DEFAULT,
    progress: Callable[[str], None] | None = None,
    cached: bool = True,
    warn: Callable[[str], None] | None = None,
) -> Executable:
    """As `compile_module`, of what need not be read where the program is in the cache."""
    options = options or Options()
    kind = target_kind(target)
    clock = StageClock(progress)
    cache = program_cache() if cached and kind.is_cacheable(options) else None
    chosen = partial(kind.target, options, threads, cache)
    with paused_collection():
        stages: Stages | None = None
        parts: dict[str, str] = {}
        names: InterfaceNames | Callable[[], InterfaceNames] = partial(_names_later, source)
        if cache is not None:
            with clock.stage("cache"):
                stages, parts = _cached(source, options, cache, kind, chosen)
        if stages is None:
            stages = _compiled(source.module, chosen(), options, clock)
            if cache is not None and not stages.faults:
                with clock.stage("cache"):
                    cache.put(parts, stages.program)
            names = _names(source.module)
        loaded = partial(
            Executable,
            threads=threads,
            kind=kind,
            target=chosen,
            patience=Patience.of(options),
            names=names,
        )
        try:
            with clock.stage("load"):
                executable = loaded(stages)
        except LoadError as error:
            stages = _compiled(source.module, chosen(), options, clock, error)
            executable = loaded(stages)
        except HloError as error:
            from hloom.ir.text.places import located

            located(error, source.module)
            raise
        finally:  # also where nothing answers a custom call: that may be said, too
            _tell(stages, source, options, kind, warn)
    executable.seconds = clock.seconds
    return executable


def _tell(
    stages: Stages,
    source: Source,
    options: Options,
    kind: TargetKind,
    warn: Callable[[str], None] | None,
) -> None:
    """Warn of the faults in spite of which a program was compiled."""
    if not stages.faults:
        return
    text = kind.notice(source.module, options, stages.faults)
    if warn is None:
        warnings.warn(text, CompilerFaultWarning, stacklevel=_outside())
    else:
        warn(text)


def compile_saved(
    module: Module,
    path: Path,
    options: Options | None = None,
    *,
    target: str = DEFAULT,
    progress: Callable[[str], None] | None = None,
    argument_names: Sequence[str] | None = None,
    result_names: Sequence[str] | None = None,
) -> Program:
    """Write a program of a module, which is not changed, to a file, for a machine that need not be
    this one; `load_compiled` reads it there. Names as for `Executable.save`."""
    program = _saved_program(module, options, target, progress, argument_names, result_names)
    write_program(path, program, {"name": program.name})
    return program


def compile_result(
    module: Module, options: Options | None = None, *, target: str = DEFAULT
) -> CompilationResult:
    """The bytes of the same program, without a file."""
    program = _saved_program(module, options, target)
    return CompilationResult(program_to_bytes(program, {"name": program.name}))


def _saved_program(
    module: Module,
    options: Options | None,
    target: str,
    progress: Callable[[str], None] | None = None,
    argument_names: Sequence[str] | None = None,
    result_names: Sequence[str] | None = None,
) -> Program:
    """A program that can be saved, with names."""
    names = _names(module).chosen(argument_names, result_names)
    options, clock, kind = options or Options(), StageClock(progress), target_kind(target)
    with paused_collection():
        stages = _compiled(module, kind.target(options), options, clock)
    arguments, results = map(list, names)
    program = replace(stages.program, argument_names=arguments, result_names=results)
    if not is_loadable(program):
        raise UsageError(
            f"saved programs are loaded on Linux, on x86-64 and aarch64, and not on "
            f"{'' if program.processor is None else program.processor.triple}",
            rule="target-triple",
            hint="C libraries can be made for other systems: -o libmodel.a",
        )
    if stages.faults:
        text = kind.notice(module, options, stages.faults)
        warnings.warn(text, CompilerFaultWarning, _outside())
    return program


def compile_library(
    module: Module,
    asked: LibraryRequest,
    options: Options | None = None,
    *,
    target: str = DEFAULT,
) -> LibraryCode:
    """The code of a function of a C library of a module, which is not changed."""
    options, kind = options or Options(), target_kind(target)
    with paused_collection():
        code = kind.library(module, asked, options)
    if code.faults:
        text = kind.notice(module, options, code.faults)
        warnings.warn(text, CompilerFaultWarning, stacklevel=_outside())
    return code


def load_compiled(path: str | Path, threads: int | None = None) -> Executable:
    """The program in a file that `Executable.save` wrote, on this machine's CPU.

    No compiler is imported; constants stay in the file. `HloError` where it is no saved program, is
    damaged, of another version, writable by others, or needs what this processor lacks.
    """
    clock = StageClock()
    with clock.stage("load"):
        stages = SavedStages(read_program(Path(path)))
        executable = Executable(stages, threads, kind=target_kind(DEFAULT))
    executable.seconds = clock.seconds
    return executable


def _outside() -> int:
    """How far up the stack the first caller is who is not hloom."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("hloom."):
        frame, level = frame.f_back, level + 1
    return level


def _cached(
    source: Source,
    options: Options,
    cache: ProgramCache,
    kind: TargetKind,
    target: Callable[[], Target],
) -> tuple[Stages | None, dict[str, str]]:
    """What the cache has, and the parts to ask or put it by. What it has need not be verified: it
    was compiled from the same program."""
    others = other_parts(kind, options)
    names = {"bytes": source.digest, **others} if source.digest is not None else None
    if names is not None and (program := cache.get_named(names)) is not None:
        return LaterStages(program, source.copy(), target), names
    parts = key_parts(kind, source.module, options)
    program = cache.get(parts)
    if names is not None:
        cache.name(parts, names)
    return program and LaterStages(program, source.copy(), target), parts


def _names(module: Module) -> InterfaceNames:
    from hloom.ir.interface_names import argument_names, result_names

    return InterfaceNames(argument_names(module), result_names(module))


def _names_later(source: Source) -> InterfaceNames:
    return _names(source.module)


class CacheReport(NamedTuple):
    """Whether a program is in the cache, and a line for each thing in which the nearest differs."""

    answer: CacheAnswer
    reasons: list[str]


def why_cached(
    cache: ProgramCache, module: Module, options: Options | None = None, target: str = DEFAULT
) -> CacheReport:
    """Why a module would, or would not, be taken from the cache; nothing is compiled."""
    answer = cache.why(key_parts(target_kind(target), module, options or Options()))
    return CacheReport(answer, differences(answer.differs))


def _compiled(
    module: Module,
    target: Target,
    options: Options,
    clock: StageClock,
    fault: LoadError | None = None,
) -> Stages:
    """All stages of a module, which is verified first, and not changed. `fault`: why its code
    could not be loaded, so that it is done without."""
    from hloom.ir.text.places import naming_places
    from hloom.ir.verify import verify

    alarm = slow_alarm(
        f"Compiling module {module.name} for {target.device.kind.upper()}",
        options["slow_compile_alarm_seconds"],
        clock.where,
        hint="hloom run --time-passes shows every pass; hloom opt --dump_to=FOLDER writes "
        "the program between passes: please report it with that",
    )
    with alarm, naming_places(module):
        faults: list[Fault] = []
        if module.use_spmd_partitioning and module.num_partitions > 1:
            with clock.stage("partition"):
                module = _partitioned(module, None if target.is_strict else faults, options)
        with clock.stage("verify"):
            target.check(module)
            verify(module)
        stages = target.compiled(module, clock, fault)
        stages.faults = [*faults, *stages.faults]
        return stages


def _partitioned(module: Module, faults: list[Fault] | None, options: Options) -> Module:
    """What each partition runs of a program that is to be partitioned; others as they are."""
    from hloom.ir.verify import verify
    from hloom.passes.partition.spmd_partitioner import is_partitionable
    from hloom.passes.partition.whole_program import partitioned
    from hloom.passes.pipeline import PipelineOptions

    if not is_partitionable(module):
        return module
    verify(module)
    runs = PipelineOptions(
        disable_hlo_passes=frozenset(options["disable_hlo_passes"]),
        enable_hlo_passes_only=frozenset(options["enable_hlo_passes_only"]),
        disable_all_hlo_passes=options["disable_all_hlo_passes"],
    ).runs
    return partitioned(module, faults, runs)
