"""A compiled program: called with arguments, asked what it is and what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hloom.base.diagnostics import UsageError, did_you_mean
from hloom.base.faults import Fault
from hloom.base.options import Options
from hloom.device.assignment import DeviceAssignment
from hloom.device.ids import GlobalDeviceId
from hloom.program.thunks.custom_call import Interpreter
from hloom.program.thunks.thunk import Thunk, walk
from hloom.runtime.buffer import Buffer
from hloom.runtime.communicator.in_process import InProcess
from hloom.runtime.communicator.patience import Patience
from hloom.runtime.communicator.processes import Processes
from hloom.runtime.host_transfers import HostTransfers
from hloom.runtime.leaves import donatable, leaves_of
from hloom.runtime.nested import nested
from hloom.runtime.program_files import write_program
from hloom.targets.stages import Stages
from hloom.targets.target import DEFAULT, Target, TargetKind, target_kind

# What knows graphs and passes is imported where it is needed: a program from the cache needs none
# of it, and starts in a fifth of the time.
if TYPE_CHECKING:
    from hloom.analysis.cost import Cost
    from hloom.device.device import Device
    from hloom.passes.pipeline import PassRecord
    from hloom.plan.usage import MemoryUse
    from hloom.targets.roofline import Roofline
    from hloom.targets.sim.simulate import Timeline


class Executable:
    """A compiled module; call it with its arguments, from any number of threads.

    `stages` is what compilation made on the way, `seconds` how long each stage took.
    """

    def __init__(
        self,
        stages: Stages,
        threads: int | None = None,
        *,
        kind: TargetKind | None = None,
        target: Callable[[], Target] | None = None,
        patience: Patience | None = None,
    ) -> None:
        """`target` makes what it was compiled for, of that kind; None: this machine as it is."""
        self.stages = stages
        self.program = stages.program
        self.kind = kind or target_kind(DEFAULT)
        self._target_of = target or (lambda: self.kind.target(Options()))
        self.seconds: dict[str, float] = {}
        self._executor = self.kind.executor(stages, threads)
        self._shapes = self.program.argument_shapes
        self._is_flat = all(s.is_array for s in self._shapes)
        self._is_single = self.program.result_shape.is_array
        self._is_among_devices = self.program.meets_others
        self._assignment = DeviceAssignment.natural(self.program.replicas, self.program.partitions)
        self.patience = patience or Patience()
        """How long devices wait for one another; to be set before the first run on several."""
        self.processes: Processes | None = None
        """Over which processes the devices are spread; None: all are in this one. To be set before
        the first run."""

    # -- running

    def __call__(self, *arguments: Any, donate: bool | int | Iterable[int] | None = None) -> Any:
        """The result for these arguments: a `Buffer`, or nested tuples of them.

        An argument is an array (numpy, anything with DLPack, a `Buffer`), or nested tuples of
        arrays where the parameter is a tuple. Buffers of parameters that the program returns in
        place (`input_output_alias`) are donated: deleted afterwards, their memory is used again.
        `donate=False` keeps them, by a copy; numbers of arguments donate those and keep the others.
        Arrays that show a donated buffer's memory stay what they are: that buffer is copied.
        """
        if self._is_among_devices:
            if self.program.device_count > 1:
                raise self._needs_all()
            return self.run_devices([arguments])[0]
        leaves: Sequence[Any] = arguments if self._is_flat else self._leaves(arguments)
        gone: list[Buffer] = []
        if donate is not None and donate is not True:
            leaves, gone = donatable(self.program, leaves, donate)
        results = self._executor.run(leaves)
        for buffer in gone:
            buffer.delete()
        if self._is_single:
            first_result = results[0]
            assert first_result is not None
            return first_result
        return nested(self.program.result_shape, iter(results))

    def run_devices(self, arguments: Sequence[Sequence[Any]]) -> list[Any]:
        """The result on every device, for a list of arguments for each (see `__call__`).

        Device d is replica d // partitions and partition d % partitions of the program
        (`devices`). All run at once, a thread each, which share the cores; collectives, sends and
        receives join them. Of a program that is spread over `processes` these are the devices in
        this one (`own_part`), and all processes must call it. Buffers are never donated. What one
        device fails with ends all; one that waits for another longer than `patience` says raises,
        too.
        """
        program = self.program
        leaves_of_devices = self._leaves_of_devices(arguments)
        results_of_devices = self._executor.run_devices(self.together, leaves_of_devices)
        return [nested(program.result_shape, iter(leaves)) for leaves in results_of_devices]

    def _leaves_of_devices(self, arguments: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """The arrays that each device is given, none of them to be donated."""
        program = self.program
        count = len(self.own_part)
        if len(arguments) != count:
            here = "" if self.processes is None else f", {count} of them in this process"
            raise UsageError(
                f"{program.name} runs on {program.device_count} devices{here}, arguments for "
                f"{len(arguments)} were given",
                rule="device-count",
                hint="give a list of arguments for each device",
            )
        flat = [a if self._is_flat else self._leaves(a) for a in arguments]
        return [donatable(self.program, leaves, False)[0] for leaves in flat]

    @cached_property
    def together(self) -> InProcess:
        """The devices of the program, which wait for one another as long as `patience` says."""
        program, fingerprint = self.program, 0
        if self.processes is not None:
            from hloom.program.meetings import fingerprint_of_meetings

            fingerprint = fingerprint_of_meetings(program)
        return InProcess(program.device_count, self.patience, self.processes, fingerprint)

    @property
    def own_part(self) -> range:
        """Which of the program's devices are in this process: those that `run_devices` is given
        arguments for, and returns results of."""
        if self.processes is None:
            return range(self.program.device_count)
        return self.processes.own_part(self.program.device_count)

    @property
    def devices(self) -> tuple[GlobalDeviceId, ...]:
        """The devices that run the program, in the order in which arguments are given."""
        return self._assignment.flat

    @property
    def device_assignment(self) -> DeviceAssignment:
        """Which device runs each replica and partition; may be set between runs. On simulated
        devices it decides which links are used. Groups of collectives, arguments and results are
        in the order of replicas and partitions, whichever devices run them."""
        return self._assignment

    @device_assignment.setter
    def device_assignment(self, assignment: DeviceAssignment | str) -> None:
        if isinstance(assignment, str):
            assignment = DeviceAssignment.named(assignment)
        topology = getattr(self._executor, "topology", None)
        count = None if topology is None else len(topology)
        assignment.check(self.program.replicas, self.program.partitions, count)
        self._assignment = self._executor.assignment = assignment

    def _needs_all(self, instead: str = "run_devices") -> UsageError:
        p = self.program
        return UsageError(
            f"{p.name} is a program for {p.device_count} devices ({p.replicas} replicas of "
            f"{p.partitions} partitions), which wait for one another",
            rule="device-count",
            hint=f"{instead} runs it on all of them: it takes a list of arguments for each",
        )

    def run_at(self, arguments: Sequence[int], results: Sequence[int]) -> None:
        """Run on memory of the caller: an address for each array handed in, and for each result.

        Everything is row-major (or as the program's layouts say) and aligned to 16 bytes;
        `UsageError` otherwise. A result that is returned in an argument has that one's address.
        """
        if self._is_among_devices:
            raise self._needs_all()
        self._executor.run_at(arguments, results)

    def infeed(self, value: Any, timeout_s: float | None = None, *, device: int = 0) -> None:
        """Give the next infeed of a device its data, an array or nested tuples of arrays, which
        waits in a queue for it. `UsageError` if no infeed of the program has that shape."""
        self._executor.feeds.put(value, timeout_s, device)

    def outfeed(self, timeout_s: float | None = None, *, device: int = 0) -> Any:
        """What the next outfeed of a device wrote, waited for: an array, or nested tuples."""
        return self._executor.feeds.take(timeout_s, device)

    @property
    def host(self) -> HostTransfers:
        """Who takes what is sent to the host, and gives what is received, by channel."""
        return self._executor.host

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

    @property
    def interruptible(self) -> bool:
        """Whether Ctrl-C ends a run at once, which costs 50 us a run."""
        return self._executor.interruptible

    @interruptible.setter
    def interruptible(self, value: bool) -> None:
        self._executor.interruptible = value

    def _leaves(self, arguments: Sequence[Any]) -> list[Any]:
        return leaves_of(self.program, self._shapes, arguments)

    def save(self, path: str | Path) -> None:
        """Write it to a file, whole or not at all; `hloom.load_compiled` reads it."""
        if self.is_simulated or any(isinstance(t, Interpreter) for t in walk(self.thunks)):
            what = "is for simulated devices" if self.is_simulated else "needs the interpreter"
            raise UsageError(f"{self.program.name} {what}: it is no machine code", rule="target")
        write_program(Path(path), self.program, {"name": self.program.name})

    # -- what it is

    @cached_property
    def target(self) -> Target:
        """What it was compiled for, and how."""
        return self._target_of()

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
