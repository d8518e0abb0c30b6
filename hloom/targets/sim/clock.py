"""A discrete-event clock: processes that wait, hold engines and take time, in order of time.

A process is a generator that yields what it wants next: an `Event` to wait for, an `EngineClock` to
have for itself, or how many nanoseconds pass. Who could go on at one time does so in the order in
which it came to that point, so a run with given delays is always the same.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

Process = Generator["Event | EngineClock | float", None, None]


@dataclass(eq=False)
class Event:
    """Something that happens once; `clock` is what was known to have ended by then."""

    name: str = ""
    is_done: bool = False
    clock: dict[int, int] = field(default_factory=dict)
    waiting: list[Process] = field(default_factory=list)


@dataclass(eq=False)
class EngineClock:
    """What one process at a time may hold."""

    name: str
    holder: Process | None = None
    queue: deque[Process] = field(default_factory=deque)


@dataclass(eq=False)
class Channel:
    """What several may use at once, each of n at an n-th of the rate."""

    name: str
    users: list[ChannelUse] = field(default_factory=list)


@dataclass(eq=False)
class ChannelUse:
    """A use of channels that is under way."""

    phase: Event
    """While as many as now use the channels; it happens when others come or go, or at the end."""
    is_over: bool = False


class Deadlock(Exception):
    """All processes wait."""


class EventClock:
    """Runs processes; `now` is in nanoseconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Process]] = []
        self._count = 0
        self._alive = 0

    def start(self, process: Process) -> None:
        """Let a process begin now."""
        self._alive += 1
        self._at(self.now, process)

    def fire(self, event: Event) -> None:
        """Let an event happen now."""
        event.is_done = True
        for process in event.waiting:
            self._at(self.now, process)
        event.waiting.clear()

    def release(self, engine: EngineClock) -> None:
        """Give an engine to who waits for it longest."""
        engine.holder = engine.queue.popleft() if engine.queue else None
        if engine.holder is not None:
            self._at(self.now, engine.holder)

    def use(self, channels: Sequence[Channel], ns: float) -> Process:
        """Take what would last so long alone, at the rate of the channel that most others use.

        A phase ends when others come or go, or with its timer. It is the timer that says that a use
        is over, not what is left: that is a difference of times, which may never be 0.
        """
        own = ChannelUse(Event())
        for channel in channels:
            channel.users.append(own)
        self._tell_users(channels, own)
        while True:
            shared_by = max([len(channel.users) for channel in channels], default=1)
            own.phase, begin = Event(), self.now
            self.start(self._timer(own, own.phase, ns * shared_by))
            yield own.phase
            if own.is_over:
                break
            ns = max(ns - (self.now - begin) / shared_by, 0.0)
        for channel in channels:
            channel.users.remove(own)
        self._tell_users(channels, own)

    def _timer(self, use: ChannelUse, phase: Event, ns: float) -> Process:
        """Ends a use after so long, unless its phase ends before."""
        yield ns
        if not phase.is_done:
            use.is_over = True
            self.fire(phase)

    def _tell_users(self, channels: Sequence[Channel], of: ChannelUse) -> None:
        """Let the others who use channels look again at how many they are."""
        for user in dict.fromkeys([u for channel in channels for u in channel.users]):
            if user is not of:
                self.fire(user.phase)

    def run(self) -> None:
        """Until all processes have ended; `Deadlock` if they cannot."""
        while self._heap:
            self.now, _, process = heapq.heappop(self._heap)
            self._go_on(process)
        if self._alive:
            raise Deadlock(f"{self._alive} processes wait for what never happens")

    def _at(self, time: float, process: Process) -> None:
        self._count += 1
        heapq.heappush(self._heap, (time, self._count, process))

    def _go_on(self, process: Process) -> None:
        while True:
            try:
                request = next(process)
            except StopIteration:
                self._alive -= 1
                return
            if isinstance(request, Event):
                if not request.is_done:
                    request.waiting.append(process)
                    return
            elif isinstance(request, EngineClock):
                if request.holder is not None:
                    request.queue.append(process)
                    return
                request.holder = process
            else:
                self._at(self.now + request, process)
                return
