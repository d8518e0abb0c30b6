"""A compiled program that is run: on arrays, on memory, on all of its devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

from hloom.base.diagnostics import UsageError, did_you_mean
from hloom.base.options import Options
from hloom.device.assignment import DeviceAssignment
from hloom.device.ids import GlobalDeviceId
from hloom.program.interface_names import InterfaceNames
from hloom.runtime.buffer import Buffer
from hloom.runtime.communicator.in_process import InProcess
from hloom.runtime.communicator.patience import Patience
from hloom.runtime.communicator.processes import Processes
from hloom.runtime.execute_options import ExecuteOptions, launch_of
from hloom.runtime.leaves import donatable, leaves_of
from hloom.runtime.nested import nested
from hloom.targets.stages import Stages
from hloom.targets.target import DEFAULT, Target, TargetKind, target_kind

if TYPE_CHECKING:
    from hloom.runtime.host_transfers import HostTransfers


class Running:
    """What runs of an `Executable`."""

    def __init__(
        self,
        stages: Stages,
        threads: int | None = None,
        *,
        kind: TargetKind | None = None,
        target: Callable[[], Target] | None = None,
        patience: Patience | None = None,
        names: InterfaceNames | Callable[[], InterfaceNames] | None = None,
    ) -> None:
        """`target` makes what it was compiled for, of that kind; None: this machine as it is.
        `names` gives those of arguments and results, where the program does not have them."""
        self.stages = stages
        self.program = stages.program
        self.kind = kind or target_kind(DEFAULT)
        self._target_of = target or (lambda: self.kind.target(Options()))
        self._names_of = names
        self.seconds: dict[str, float] = {}
        self._executor = self.kind.executor(stages, threads)
        self._shapes = self.program.argument_shapes
        self._is_flat = all(s.is_array for s in self._shapes)
        self._is_single = self.program.result_shape.is_array
        self._is_among_devices = self.program.meets_others
        self._assignment = DeviceAssignment.natural(self.program.replicas, self.program.partitions)
        self._meeting = Lock()
        self._host: HostTransfers | None = None
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

    def run(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The results by name (`result_names`), for arguments by name (`argument_names`)."""
        if unknown := [n for n in arguments if n not in self.argument_names]:
            raise UsageError(
                f"{self.program.name} takes no {unknown[0]}",
                rule="argument-name",
                hint=did_you_mean(unknown[0], self.argument_names),
            )
        if missing := [n for n in self.argument_names if n not in arguments]:
            raise UsageError(
                f"{self.program.name} is given no {', '.join(missing)}",
                rule="argument-count",
                hint=f"it takes {', '.join(self.argument_names)}",
            )
        result = self(*[arguments[n] for n in self.argument_names])
        results = result if self.program.result_shape.is_tuple else (result,)
        return dict(zip(self.result_names, results, strict=True))

    def run_with(self, options: ExecuteOptions, *arguments: Any) -> Any:
        """As `__call__`, with threads, a device and data for handlers that are of this run alone;
        no buffer is donated.

        Of a program for several devices this is what one of them does (`options.device`): the
        others are run at the same time, by calls in other threads, and collectives join them.
        """
        if self.processes is not None:
            raise UsageError(
                f"{self.program.name} is spread over processes, which run all their devices",
                rule="device-count",
                hint="run_devices takes arguments for each of them",
            )
        with self._meeting:
            together = self.together  # the same for all devices, whichever comes first
        launch = launch_of(options, self.program, self._assignment, together)
        leaves = arguments if self._is_flat else self._leaves(arguments)
        results = self._executor.run_launch(donatable(self.program, leaves, False)[0], launch)
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
        from hloom.runtime.host_transfers import HostTransfers

        with self._meeting:
            if self._host is None:
                self._host = HostTransfers(self._executor.loaded.handle, self.program)
            return self._host

    @property
    def interruptible(self) -> bool:
        """Whether Ctrl-C ends a run at once, which costs 50 us a run."""
        return self._executor.interruptible

    @interruptible.setter
    def interruptible(self, value: bool) -> None:
        self._executor.interruptible = value

    def _leaves(self, arguments: Sequence[Any]) -> list[Any]:
        return leaves_of(self.program, self._shapes, arguments)

    # -- names

    @property
    def argument_names(self) -> tuple[str, ...]:
        """Of its parameters, in order, as its program has them, or whoever compiled it said."""
        return self._names.arguments

    @property
    def result_names(self) -> tuple[str, ...]:
        """Of each element of the result, or of the one that it is: what the root tuple is made
        of."""
        return self._names.results

    @cached_property
    def _names(self) -> InterfaceNames:
        names, program = self._names_of, self.program
        if names is not None:
            return names if isinstance(names, InterfaceNames) else names()
        return InterfaceNames(tuple(program.argument_names), tuple(program.result_names))

    @cached_property
    def target(self) -> Target:
        """What it was compiled for, and how."""
        return self._target_of()
