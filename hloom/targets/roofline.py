"""How far each step of a program is from the least time that a device allows.

A step's floor follows from its bytes and operations and the rates of the device
(`device/timing.py`), the program's from its arguments and results, each moved once, and from all
that it computes. Beside it stands what the cost model expects and what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from hloom.base.clock import performance
from hloom.base.diagnostics import UsageError
from hloom.device.device import Device
from hloom.device.timing import Floor, floor, moved_ns
from hloom.program.program import Program
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.thunk import Thunk
from hloom.runtime.debug import StepTime
from hloom.targets.stages import Stages
from hloom.targets.thunk_work import RunWork, ThunkWork


@dataclass(frozen=True, slots=True)
class StepRoofline:
    """A step: seconds, bytes and operations of all its runs within one run of the program."""

    thunk: Thunk
    runs: int
    bytes: float
    operations: float
    transcendentals: float
    floor_s: float
    bound: str
    """What the floor is the time of: start, operations, functions, memory, cache N."""
    predicted_s: float
    measured_s: float

    @property
    def distance(self) -> float:
        """How many times its floor it takes."""
        return self.measured_s / self.floor_s


@dataclass(frozen=True, slots=True)
class Roofline:
    """A program: its steps, those first in which most is lost (distance times time)."""

    device: Device
    """Whose rates the floors are made of."""
    steps: tuple[StepRoofline, ...]
    floor_s: float
    """Of the program: what it is given and gives moved once, and all that it computes."""
    bound: str
    measured_s: float
    """A whole run, timed as it is called."""

    @property
    def distance(self) -> float:
        return self.measured_s / self.floor_s

    @property
    def steps_floor_s(self) -> float:
        """The sum of the floors of all steps."""
        return sum([s.floor_s for s in self.steps])

    @property
    def predicted_s(self) -> float:
        return sum([s.predicted_s for s in self.steps])

    @property
    def steps_s(self) -> float:
        """The sum of what all steps took when they were called one by one."""
        return sum([s.measured_s for s in self.steps])


class Ran(Protocol):
    """A program that can be run: what `Executable` has."""

    @property
    def program(self) -> Program: ...
    @property
    def stages(self) -> Stages: ...
    @property
    def threads(self) -> int | None: ...
    def profile(self, *arguments: Any) -> list[StepTime]: ...
    def __call__(self, *arguments: Any, donate: bool) -> Any: ...


def measured_roofline(
    executable: Ran, arguments: Sequence[Any], repeats: int, device: Device
) -> Roofline:
    """Of so many runs after a first one, step by step and whole; `UsageError` for programs that do
    not run on one device of this machine."""
    threads = executable.threads
    if threads is None or executable.program.meets_others:
        raise UsageError(
            f"{executable.program.name} does not run on one device of this machine",
            rule="target",
            hint="profile_devices times the steps of several devices",
        )
    profiles = [executable.profile(*arguments) for _ in range(repeats + 1)]
    seconds = []
    for _ in range(repeats + 1):
        start = performance()
        executable(*arguments, donate=False)
        seconds.append(performance() - start)
    device = at_work(device, threads)
    return roofline(executable.stages, device, profiles, min(seconds))


def floor_s(executable: Ran, device: Device) -> float:
    """The least time that a device allows for a run of a program, which is not run."""
    device = at_work(device, executable.threads)
    return program_floor(executable.stages, device).ns * 1e-9


def at_work(device: Device, threads: int | None) -> Device:
    """A device with as many units as have a thread; None: all."""
    units = min(device.compute.units, threads or device.compute.units)
    return replace(device, compute=replace(device.compute, units=units))


def roofline(
    stages: Stages, device: Device, profiles: Sequence[Sequence[StepTime]], measured_s: float
) -> Roofline:
    """Of a program of one device, whose steps took so long in these runs, of which the best counts
    for each; `measured_s` is a run as it is."""
    work_of = ThunkWork(stages, device.costs)
    steps = []
    best: dict[Thunk, StepTime] = {}
    for time in [t for profile in profiles for t in profile]:
        known = best.get(time.thunk)
        if known is None or time.seconds < known.seconds:
            best[time.thunk] = time
    total: dict[str, float] = {}
    functions = 0.0
    for time in best.values():
        runs, work = time.runs, work_of(time.thunk)
        least = _floor(device, work)
        for of, n in work.operations.items():
            total[of] = total.get(of, 0.0) + n * runs
        functions += work.functions * runs
        expected = expected_ns(device, time.thunk, work, work_of.footprint)
        steps.append(
            StepRoofline(
                thunk=time.thunk,
                runs=runs,
                bytes=work.bytes * runs,
                operations=sum(work.operations.values()) * runs,
                transcendentals=work.transcendentals * runs,
                floor_s=least.ns * runs * 1e-9,
                bound=least.bound,
                predicted_s=(expected + device.costs.kernel_ns) * runs * 1e-9,
                measured_s=time.seconds,
            )
        )
    steps.sort(key=lambda s: -s.distance * s.measured_s)
    moved = sum([s.bytes for s in steps])
    whole = floor(device, total, functions, _outside_bytes(stages, moved))
    return Roofline(device, tuple(steps), whole.ns * 1e-9, whole.bound, measured_s)


def expected_ns(device: Device, thunk: Thunk, work: RunWork, footprint: float) -> float:
    """What a thunk should take on all units but for its start, in a program whose memory is so
    large and which runs again and again: costs count what is computed, what is read and written
    takes its time, too. A copy is nothing but bytes."""
    outside = min(1.0, work.outside / max(work.bytes, 1.0))
    moved = moved_ns(device, work.moved, work.written)
    if outside and footprint > work.bytes:
        far = moved_ns(device, work.moved, work.written, footprint)
        moved += (far - moved) * outside
    if isinstance(thunk, Copy):
        return moved
    return max(thunk.elapsed_ns(device.costs, device.compute.units), moved)


def program_floor(stages: Stages, device: Device) -> Floor:
    """The least time of a program, without running it; loops count as often as they are known to
    run."""
    work_of = ThunkWork(stages, device.costs)
    total: dict[str, float] = {}
    for t in stages.program.thunks:
        for of, n in work_of(t).operations.items():
            total[of] = total.get(of, 0.0) + n
    cost = work_of.whole.total
    return floor(device, total, cost.functions, _outside_bytes(stages, cost.bytes))


def _floor(device: Device, work: RunWork) -> Floor:
    return floor(device, work.operations, work.functions, work.moved, work.is_matrix)


def _outside_bytes(stages: Stages, most: float) -> dict[int, float]:
    """Bytes of arguments and results by memory space, each counted once; `most`: what all steps
    move, where they read less than the whole of an argument."""
    program = stages.program
    bytes_of: dict[int, float] = {}
    indices = {p.allocation for p in program.parameters if p.allocation is not None}
    for index in indices:
        a = program.allocations[index]
        bytes_of[a.space] = bytes_of.get(a.space, 0.0) + a.size_bytes
    for r in program.results:
        if r.slice is not None and r.slice.allocation.index not in indices:
            space = r.slice.allocation.space
            bytes_of[space] = bytes_of.get(space, 0.0) + r.slice.size_bytes
    part = min(1.0, most / max(sum(bytes_of.values()), 1))
    return {space: size * part for space, size in bytes_of.items()}
