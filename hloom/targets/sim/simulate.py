"""Runs a program on simulated devices: values by this machine's kernels, time by a clock.

Each device has memory of its own; its streams are processes on the clock. A thunk runs, natively
and at once, when its stream has come to it, its waits are fulfilled and its time has passed: since
memory is real, what does not wait reads what is there. A race checker holds every thunk against
the order that waits and streams state.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.base.diagnostics import HloError, UsageError
from hloom.device.topology import Topology
from hloom.program.thunks.call import Call
from hloom.program.thunks.collective import Collective, CollectiveDone, CollectiveStart
from hloom.program.thunks.conditional import Conditional
from hloom.program.thunks.thunk import Thunk
from hloom.program.thunks.transfer import Recv, Send
from hloom.program.thunks.while_ import While
from hloom.runtime.buffer import Buffer
from hloom.runtime.debug import FAILED, MAIN, DebugExecutor
from hloom.runtime.debug_devices import device_number
from hloom.runtime.debug_steps import STEPS, branch_of
from hloom.targets.sim.clock import Deadlock, EngineClock, Event, EventClock, Process
from hloom.targets.sim.meetings import Hop, Meeting, Meetings, Times
from hloom.targets.sim.races import Clock, RaceChecker, merge
from hloom.targets.sim.streams import SequenceStreams

if TYPE_CHECKING:
    from hloom.runtime.communicator.in_process import InProcess
    from hloom.targets.sim.executor import SimExecutor

MEETING = (Collective, CollectiveStart, CollectiveDone, Send, Recv)
"""Thunks that wait for other devices, or let them go on."""
LONGEST_DELAY = 20.0
"""Times of a thunk that it may be late by, with random delays."""


@dataclass(frozen=True, slots=True)
class Span:
    """Something that a stream of a device did. Nanoseconds."""

    device: int
    stream: str
    kind: str
    name: str
    start_ns: float
    end_ns: float
    is_outer: bool = False
    """A loop, branch, call or meeting: what happens in it has spans of its own."""


@dataclass
class Timeline:
    """What happened in a run, in the order in which it ended."""

    topology: Topology
    spans: list[Span] = field(default_factory=list)
    waits: int = 0
    """Of the program; each may be left out by its number."""

    @property
    def total_ns(self) -> float:
        return max([s.end_ns for s in self.spans], default=0.0)


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What is done to a run to find a missing dependency."""

    delays: int | None = None
    """Seed of random delays of everything; None: none."""
    left_out_wait: int | None = None
    """The number of the wait that nobody waits for."""


class Simulation:
    """One run on several devices."""

    def __init__(
        self, executor: SimExecutor, together: InProcess | None, disturbance: Disturbance
    ) -> None:
        self.executor = executor
        self.together = together
        self.stream_assignment = executor.stream_assignment
        self.times = executor.times
        self.left_out = disturbance.left_out_wait
        self._check_wait()
        seed = disturbance.delays
        self.random = None if seed is None else np.random.default_rng(seed)
        self.clock = EventClock()
        self.races = RaceChecker()
        self.ids = executor.assignment.flat
        self.meetings = Meetings(executor.topology, self.ids)
        self.timeline = Timeline(executor.topology, waits=len(self.stream_assignment.waits))
        self.devices: list[_Device] = []
        self.was_left_out = False

    def run(self, arguments: Sequence[Sequence[Any]]) -> list[list[Buffer | None]]:
        """The results' leaves of every device, for the arguments' leaves of each.

        Each device is inside a native call of its own, in a thread; the last one to come there runs
        all of them, and the others wait for the end.
        """
        count = len(arguments)
        came, ended = threading.Lock(), threading.Event()
        errors: list[BaseException] = []
        failed: dict[int, int] = {}

        def main(context: int, buffers: int) -> int:
            device = _Device(device_number(context, count), context, buffers, self)
            with came:
                self.devices.append(device)
                is_last = len(self.devices) == count
            if is_last:
                try:
                    self._go()
                except _Failed as error:
                    failed[error.device] = error.status
                except BaseException as error:
                    errors.append(error)
                ended.set()
            ended.wait()
            return failed.get(device.number, FAILED if failed or errors else 0)

        callback = MAIN(main)
        entry = ctypes.cast(callback, ctypes.c_void_p).value
        try:
            if self.together is None or count == 1:
                return [self.executor.run(arguments[0], entry)]
            return self.executor.run_devices(self.together, arguments, entry)
        except HloError:
            if errors:
                raise errors[0] from None
            raise

    def conducted(self, meeting: Meeting, t: Thunk, stream: str) -> Process:
        """A collective that all have come to."""
        start = self.clock.now
        yield from self.under_way(self.meetings.times(meeting), self.meetings.hops(meeting))
        meeting.conduct()
        for device in meeting.group:
            self.devices[device].tell(t, stream, start)
        meeting.done.clock = dict(meeting.clock)
        self.clock.fire(meeting.done)

    def under_way(self, times: Times, hops: Sequence[Hop]) -> Process:
        """Let data move between devices, over links that others may use at the same time."""
        yield self.delayed(times.latency)
        channels = self.meetings.channels(hops)
        moving = self.delayed(times.moving) if times.moving else 0.0
        yield from self.clock.use(channels, moving)

    def _go(self) -> None:
        self.devices.sort(key=lambda device: device.number)
        for device in self.devices:
            self.clock.start(device.program())
        try:
            self.clock.run()
        except Deadlock:
            raise self.meetings.stuck() from None
        if self.left_out is not None and not self.was_left_out:
            waiter, other = self.stream_assignment.waits[self.left_out]
            raise UsageError(
                f"wait {self.left_out}, of %{waiter.name} for %{other.name}, was never come to: "
                "it stands in a loop or branch that did not run",
                rule="left-out-wait",
            )

    def _check_wait(self) -> None:
        count = len(self.stream_assignment.waits)
        if self.left_out is not None and not 0 <= self.left_out < count:
            raise UsageError(
                f"there is no wait {self.left_out}: the program has {count}",
                rule="left-out-wait",
                hint="they are numbered from 0 on",
            )

    def delayed(self, ns: float) -> float:
        """A time, longer by a random part of it if that is asked for."""
        if self.random is None:
            return ns
        return ns + (ns + 100.0) * float(self.random.random() ** 3) * LONGEST_DELAY


class _Failed(Exception):
    """A thunk gave a status that is not 0; the native call of its device tells what it means."""

    def __init__(self, device: int, status: int) -> None:
        super().__init__(device, status)
        self.device, self.status = device, status


class _Device:
    """A device in a run."""

    def __init__(self, number: int, context: int, buffers: int, run: Simulation) -> None:
        executor = run.executor
        self.number = number
        self.id = run.ids[number]
        self.debug = DebugExecutor(executor, executor.topology.member(self.id).device)
        self.debug.numbers = executor.numbers
        self.debug.enter(context, buffers)
        self.simulation = run
        self.clock = run.clock
        self.engines: dict[str, EngineClock] = {}
        self._streams: dict[tuple[int, str], int] = {}

    def program(self) -> Process:
        """All of its program."""
        yield from self.sequence(self.simulation.stream_assignment.main, {})

    def sequence(self, assigned: SequenceStreams, clock: Clock) -> Process:
        """Run a sequence on its streams; `clock` has what ended before, and then all of it too."""
        ended = [Event(t.name) for t in assigned.thunks]
        finished: list[Event] = []
        for name in assigned.streams:
            done = Event(name)
            finished.append(done)
            self.clock.start(self.stream(assigned, name, dict(clock), ended, done))
        for done in finished:
            yield done
            merge(clock, done.clock)

    def stream(
        self, assigned: SequenceStreams, name: str, clock: Clock, ended: list[Event], done: Event
    ) -> Process:
        """Run what one stream of a sequence runs."""
        number = self._streams.setdefault((assigned.number, name), self._new_stream())
        engine = self.engines.setdefault(name, EngineClock(name))
        run = self.simulation
        for k in assigned.order(name):
            t = assigned.thunks[k]
            for wait in assigned.waits[k]:
                if wait.number == run.left_out:
                    run.was_left_out = True
                    continue
                yield ended[wait.for_]
                merge(clock, ended[wait.for_].clock)
            if run.random is not None:
                yield run.delayed(0.0)
            start = self.clock.now
            is_outer = k in assigned.inner or isinstance(t, MEETING)
            if k in assigned.inner:
                yield from self.composite(t, assigned.inner[k], clock)
            elif isinstance(t, MEETING):
                yield from self.meeting(t, name, clock)
            else:
                yield engine
                start = self.clock.now
                yield run.delayed(run.times(t))
                self.execute(t)
                self.clock.release(engine)
            self.tell(t, name, start, is_outer)
            clock[number] = clock.get(number, 0) + 1
            run.races.record(self.number, t, number, clock)
            ended[k].clock = dict(clock)
            self.clock.fire(ended[k])
        done.clock = clock
        self.clock.fire(done)

    def tell(self, t: Thunk, stream: str, start: float, is_outer: bool = False) -> None:
        """Note what has just ended."""
        span = Span(self.id.value, stream, t.kind, t.name, start, self.clock.now, is_outer)
        self.simulation.timeline.spans.append(span)

    def meeting(self, t: Thunk, stream: str, clock: Clock) -> Process:
        """Run a thunk that waits for other devices, or lets them go on."""
        run = self.simulation
        meetings = run.meetings
        if isinstance(t, Send):
            self.execute(t)
            sent = meetings.sent(t.channel, self.number)
            sent.clock = dict(clock)
            self.clock.fire(sent)
        elif isinstance(t, Recv):
            partner = meetings.awaited(t, self.number)
            if partner is not None:
                source, sent = partner
                yield sent
                merge(clock, sent.clock)
                times = meetings.transfer_times(source, self.number, t.data.size_bytes)
                yield from run.under_way(times, [(source, self.number)])
            self.execute(t)
        elif isinstance(t, CollectiveDone):
            joined = meetings.under_way.pop((self.number, t.operation.number), None)
            if joined is None:
                self.execute(t)
                return
            yield joined.done
            merge(clock, joined.done.clock)
        elif isinstance(t, Collective | CollectiveStart):
            yield from self.join(t, stream, clock)

    def join(self, t: Collective | CollectiveStart, stream: str, clock: Clock) -> Process:
        """Come to a collective, and wait for it if it is not asynchronous."""
        run = self.simulation
        start = isinstance(t, CollectiveStart)
        last = run.executor.ends[t.operation.number] if start else t
        if start:
            self.execute(t)
        meeting = run.meetings.join(self.number, t.operation, t, clock, lambda: self.execute(last))
        if meeting is None:
            if not start:
                self.execute(t)
            return
        if meeting.is_complete:
            self.clock.start(run.conducted(meeting, t, stream))
        if not start:
            yield meeting.done
            merge(clock, meeting.done.clock)

    def composite(self, t: Thunk, inner: tuple[SequenceStreams, ...], clock: Clock) -> Process:
        """Run a thunk that holds sequences; each of them ends before what follows it begins."""
        if isinstance(t, While):
            condition, body = inner
            left = t.trip_count
            while left is None or left > 0:
                if left is None:
                    yield from self.sequence(condition, clock)
                    if not self.debug.bytes_of(t.pred)[0]:
                        return
                else:
                    left -= 1
                yield from self.sequence(body, clock)
        elif isinstance(t, Conditional):
            yield from self.sequence(inner[branch_of(self.debug, t)], clock)
        elif isinstance(t, Call):
            yield from self.sequence(inner[0], clock)
        else:
            raise UsageError(
                f"%{t.name}: the simulator does not know the kind {t.kind}", rule="sim-unsupported"
            )

    def execute(self, t: Thunk) -> None:
        """Run a thunk natively; raises what it fails with."""
        if status := STEPS.for_class(type(t))(self.debug, t):
            raise _Failed(self.number, status)

    def _new_stream(self) -> int:
        return len(self._streams) + 1_000_000 * self.number
