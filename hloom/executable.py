"""A compiled program: called with arguments, asked what it is and what it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hloom.base.diagnostics import HloError, UsageError, did_you_mean
from hloom.base.faults import Fault
from hloom.program.saved import program_from_bytes, program_to_bytes
from hloom.program.thunks.thunk import Thunk, walk
from hloom.running import Running
from hloom.runtime.communicator.in_process import InProcess
from hloom.runtime.leaves import donatable
from hloom.runtime.loaded_program import crc32
from hloom.runtime.nested import nested
from hloom.runtime.program_files import write_program
from hloom.targets.stages import SavedStages
from hloom.targets.target import DEFAULT, target_kind

# What knows graphs and passes is imported where it is needed: a program from the cache needs none
# of it, and starts in a fifth of the time.
if TYPE_CHECKING:
    from hloom.analysis.cost import Cost
    from hloom.device.device import Device
    from hloom.passes.pipeline import PassRecord
    from hloom.plan.usage import MemoryUse
    from hloom.program.program import Program
    from hloom.targets.roofline import Roofline
    from hloom.targets.sim.simulate import Timeline


class Executable(Running):
    """A compiled module; call it with its arguments, from any number of threads.

    `stages` is what compilation made on the way, `seconds` how long each stage took.
    """

    # -- watching

    def debug(
        self, *arguments: Any, nan: bool = True, bounds: bool = True, kernels: bool = False
    ) -> Any:
        """Run step by step and watch: a `DebugRun` with the result, times, and what was found.

        `nan` looks for the first instruction that makes NaN or infinities of finite numbers,
        `bounds` puts guards around the buffers of every step, `kernels` runs kernels in the
        interpreter of the kernel language instead of their machine code.
        """
        watched = {"nan": nan, "bounds": bounds, "kernels": kernels}
        if not self._is_among_devices:
            return self._debug([arguments], None, watched)[0]
        if self.program.device_count > 1:
            raise self._needs_all("debug_devices")
        return self.debug_devices([arguments], **watched)[0]

    def debug_devices(
        self,
        arguments: Sequence[Sequence[Any]],
        *,
        nan: bool = True,
        bounds: bool = True,
        kernels: bool = False,
    ) -> list[Any]:
        """As `debug` on all devices, with a list of arguments for each: a `DebugRun` of each.

        There are no guards around the buffers of what devices do together.
        """
        watched = {"nan": nan, "bounds": bounds, "kernels": kernels}
        return self._debug(arguments, self.together, watched)

    def _debug(
        self, arguments: Sequence[Any], together: InProcess | None, watched: dict[str, bool]
    ) -> list[Any]:
        leaves = [a if self._is_flat else self._leaves(a) for a in arguments]
        if together is not None:
            leaves = self._leaves_of_devices(arguments)
        runs = self.target.debug(self.stages, self._executor, leaves, together, **watched)
        for run in runs:
            run.result = nested(self.program.result_shape, iter(run.leaves))
        return runs

    @property
    def is_simulated(self) -> bool:
        """Whether its devices are simulated, so that `simulate` tells what they do when."""
        return self.kind.name.partition(":")[0] == "sim"

    def simulate(
        self,
        arguments: Sequence[Sequence[Any]],
        *,
        delays: int | None = None,
        leave_out_wait: int | None = None,
    ) -> tuple[list[Any], Timeline]:
        """Run on simulated devices, with a list of arguments for each: the result of every one,
        and what happened when.

        `delays`: the seed of random delays of everything. `leave_out_wait`: the number of a wait
        that nobody waits for, which raises a `RaceError`. Buffers are never donated.
        """
        from hloom.targets.sim.executor import SimExecutor
        from hloom.targets.sim.simulate import Disturbance

        executor = self._executor
        if not isinstance(executor, SimExecutor):
            raise UsageError(
                f"{self.program.name} was compiled for {self.kind.name}, which is not simulated",
                rule="target",
                hint='compile for target="sim", or "sim:two-gpus"',
            )
        flat = self._leaves_of_devices(arguments)
        results_of_devices = executor.simulated(
            self.together, flat, Disturbance(delays, leave_out_wait)
        )
        results = [nested(self.program.result_shape, iter(leaves)) for leaves in results_of_devices]
        return results, executor.timeline

    def profile(self, *arguments: Any, repeats: int = 1) -> list[Any]:
        """How long each step takes when it is called alone: `StepTime`s, in order of first run."""
        from hloom.runtime.debug import DebugExecutor

        if self._is_among_devices:
            if self.program.device_count > 1:
                raise self._needs_all("profile_devices")
            return self.profile_devices([arguments], repeats=repeats)[0]
        leaves = arguments if self._is_flat else self._leaves(arguments)
        debug = DebugExecutor(self._executor, self.target.device)
        for _ in range(repeats):
            debug.run(donatable(self.program, leaves, False)[0])
        return list(debug.steps.values())

    def profile_devices(
        self, arguments: Sequence[Sequence[Any]], *, repeats: int = 1
    ) -> list[list[Any]]:
        """The same of every device, with a list of arguments for each. All run at once, so a step
        has the cores that the others leave; `waited_s` is the part of its time in which it waited
        for other devices."""
        from hloom.runtime.debug_devices import DebugDevices

        debug = DebugDevices(self._executor, self.target.device)
        leaves = self._leaves_of_devices(arguments)
        for _ in range(repeats):
            debug.run(self.together, leaves)
        return [list(each.steps.values()) for each in debug.devices]

    @property
    def threads(self) -> int | None:
        """How many may work on a run; None where devices are simulated."""
        return getattr(self._executor, "threads", None)

    def roofline(
        self, *arguments: Any, repeats: int = 10, device: Device | None = None
    ) -> Roofline:
        """How far each step, and the program, is from the least time that a device allows, as
        `hloom calibrate` measures it (None: the one compiled for); the best run counts."""
        from hloom.targets.roofline import measured_roofline

        return measured_roofline(self, arguments, repeats, device or self.target.device)

    def save(
        self,
        path: str | Path,
        *,
        argument_names: Sequence[str] | None = None,
        result_names: Sequence[str] | None = None,
    ) -> None:
        """Write it to a file, whole or not at all; `hloom.load_compiled` reads it. Arguments and
        results have their names there, unless others are given."""
        program = self._with_names(argument_names, result_names)
        write_program(Path(path), program, {"name": program.name})

    def export(self) -> CompilationResult:
        """The same as bytes, without a file: what `hloom.compile_ahead_of_time` gives."""
        program = self._with_names(None, None)
        return CompilationResult(program_to_bytes(program, {"name": program.name}))

    def _with_names(
        self, argument_names: Sequence[str] | None, result_names: Sequence[str] | None
    ) -> Program:
        """The program as it is saved; `UsageError` for one that is no machine code."""
        if self.is_simulated or any(t.is_interpreted for t in walk(self.thunks)):
            what = "is for simulated devices" if self.is_simulated else "needs the interpreter"
            raise UsageError(f"{self.program.name} {what}: it is no machine code", rule="target")
        names = self._names.chosen(argument_names, result_names)
        arguments, results = map(list, names)
        return replace(self.program, argument_names=arguments, result_names=results)

    # -- what it is

    @property
    def memory(self) -> MemoryUse:
        """What a run needs: sums in bytes, and a row for every value."""
        from hloom.plan.usage import MemoryUse

        return MemoryUse(self.program.allocations, lambda: self.stages.buffer_assignment)

    @property
    def cost(self) -> Cost:
        """Operations and bytes moved by one run of the optimised program."""
        from hloom.analysis.cost import module_cost

        return module_cost(self.stages.module).total

    @property
    def thunks(self) -> tuple[Thunk, ...]:
        """The steps of the program; loops and choices hold sequences of their own."""
        return self.program.thunks

    @property
    def faults(self) -> list[Fault]:
        """Of hloom, in spite of which it was compiled, and what was done instead."""
        return self.stages.faults

    @property
    def pass_records(self) -> list[PassRecord]:
        """What each pass did, and when."""
        return self.stages.records

    def as_text(self, stage: str = "hlo") -> str:
        """The program at a stage of compilation.

        `hlo` after all passes, `plan` (a place for every value), `kernels` (the tile language),
        `llvm`, `assembly`, `thunks` (what runs, in order), `graph` (who waits for whom, as DOT).
        """
        if stage not in self.kind.stages:
            raise UsageError(f"no stage {stage!r}", hint=did_you_mean(stage, self.kind.stages))
        return self.target.text(self.stages, stage)

    def __repr__(self) -> str:
        shapes = ", ".join([s.text_without_layout for s in self._shapes])
        result = self.program.result_shape.text_without_layout
        return f"<Executable {self.program.name}: ({shapes}) -> {result}>"


class CompilationResult:
    """A program that was compiled ahead of time, as bytes: all that another process needs."""

    def __init__(self, data: bytes) -> None:
        self._data: bytes | None = data

    def __bytes__(self) -> bytes:
        """What a saved program is as a file; `UsageError` once it has been loaded."""
        if self._data is None:
            raise UsageError(
                "a result of compiling ahead of time is loaded once, and this one has been",
                rule="saved-program",
                hint="keep bytes(result), or the executable that load() returned",
            )
        return self._data

    def load(self, threads: int | None = None) -> Executable:
        """The program on this machine's CPU, as `load_compiled` has it, which consumes the result.

        `HloError` for bytes that are no saved program, or one that cannot run here.
        """
        try:
            stages = SavedStages(program_from_bytes(bytes(self), crc32))
        except UsageError:
            raise
        except HloError as error:
            message = f"Failed to parse serialized program: {error.message}"
            raise HloError(message, rule="saved-program", hint=error.hint) from None
        executable = Executable(stages, threads, kind=target_kind(DEFAULT))
        self._data = None
        return executable
