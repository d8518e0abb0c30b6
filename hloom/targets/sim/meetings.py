"""Where simulated devices meet: collectives, sends and receives.

A collective begins when all of its group have come, takes as long as the links need, and then is
done natively by all members at once, a thread for each, as the communicator wants it. From the
start of an asynchronous one to that moment its members go on with other work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hloom.base.diagnostics import HloError
from hloom.device.ids import GlobalDeviceId
from hloom.device.timing import collective_ns
from hloom.device.topology import Topology
from hloom.program.thunks.collective import Operation
from hloom.program.thunks.thunk import Thunk
from hloom.program.thunks.transfer import Recv
from hloom.targets.sim.clock import Channel, Event
from hloom.targets.sim.races import Clock, merge

Key = tuple[object, ...]
Hop = tuple[int, int]
"""From which device to which."""
PERMUTES = ("permute", "permute-slices")
"""Exchanges in which devices send to those that they name."""


class Times(NamedTuple):
    """How long something is under way, alone; nanoseconds."""

    latency: float
    """During which links are free for others."""
    moving: float
    """At the whole rate of its links."""


@dataclass
class Meeting:
    """One collective of one group, once."""

    operation: Operation
    group: tuple[int, ...]
    name: str
    done: Event
    size_bytes: int = 0
    work: dict[int, Callable[[], None]] = field(default_factory=dict)
    """By device, what its native part is."""
    clock: Clock = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return len(self.work) == len(self.group)

    def conduct(self) -> None:
        """Do the native part of all members at once; raises what the first of them fails with."""
        errors: list[BaseException] = []

        def do(work: Callable[[], None]) -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=do, args=(w,), daemon=True) for w in self.work.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]


class Meetings:
    """All meetings of a run, and what was sent."""

    def __init__(self, topology: Topology, ids: Sequence[GlobalDeviceId]) -> None:
        """`ids`: the device of the topology that each number of a device stands for."""
        self.topology = topology
        self.ids = ids
        self.open: dict[Key, Meeting] = {}
        self.under_way: dict[tuple[int, int], Meeting] = {}
        """By device and operation: what the second half waits for."""
        self._channels: dict[str, Channel] = {}
        self._times: dict[Key, int] = {}
        self._sent: dict[Key, Event] = {}

    def join(
        self,
        device: int,
        operation: Operation,
        thunk: Thunk,
        clock: Clock,
        work: Callable[[], None],
    ) -> Meeting | None:
        """Come to the meeting of one's group; None for a device that is in no group."""
        group = next((g for g in operation.groups if device in g), None)
        if group is None:
            return None
        key = (operation.number, group, self._count("collective", device, operation.number))
        meeting = self.open.get(key)
        if meeting is None:
            meeting = self.open[key] = Meeting(operation, group, thunk.name, Event(thunk.name))
        meeting.work[device] = work
        size = sum([u.slice.size_bytes for u in thunk.uses() if u.writes])
        meeting.size_bytes = max(meeting.size_bytes, size)
        merge(meeting.clock, clock)
        self.under_way[device, operation.number] = meeting
        if meeting.is_complete:
            del self.open[key]
        return meeting

    def times(self, meeting: Meeting) -> Times:
        """How long a collective takes once all have come."""
        kind = meeting.operation.exchange
        if kind not in PERMUTES:
            return self._times_of(meeting.group, meeting.size_bytes, kind)
        hops = [self._times_of(h, meeting.size_bytes, kind) for h in self.hops(meeting)]
        return Times(
            max([t.latency for t in hops], default=0.0), max([t.moving for t in hops], default=0.0)
        )

    def hops(self, meeting: Meeting) -> list[Hop]:
        """Who sends to whom: each to the next one of a ring, or as the pairs of a permute say."""
        operation, group = meeting.operation, meeting.group
        if operation.exchange not in PERMUTES:
            return list(zip(group, (*group[1:], group[0]), strict=True))
        flat = operation.pairs
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
        return [(a, b) for a, b in pairs if a in group and a != b]

    def transfer_times(self, source: int, target: int, size_bytes: int) -> Times:
        """How long a message takes."""
        return self._times_of((source, target), size_bytes, "permute")

    def _times_of(self, devices: Sequence[int], size_bytes: int, kind: str) -> Times:
        members = [self.ids[d] for d in devices]
        latency = collective_ns(self.topology, members, 0, kind)
        return Times(latency, collective_ns(self.topology, members, size_bytes, kind) - latency)

    def channels(self, hops: Sequence[Hop]) -> list[Channel]:
        """What devices send to others over: the link, out of the device that sends."""
        names: dict[str, None] = {}
        for one, other in [(self.ids[a], self.ids[b]) for a, b in hops]:
            link = self.topology.link(one, other)
            number = "" if link is None else f"link {self.topology.links.index(link)} "
            names[f"{number}out of device {one}"] = None
        return [self._channels.setdefault(name, Channel(name)) for name in names]

    def sent(self, channel: int, source: int) -> Event:
        """What the next send of a device through a channel fires."""
        return self._event(channel, source, self._count("send", source, channel))

    def awaited(self, t: Recv, device: int) -> tuple[int, Event] | None:
        """Where the data of a receive comes from, and what says that they are there; None for a
        device that nothing is sent to."""
        n = self._count("receive", device, t.channel)
        if t.pairs is None:
            return device, self._event(t.channel, device, n)
        for source, target in t.pairs:
            if target == device:
                return source, self._event(t.channel, source, n)
        return None

    def stuck(self) -> HloError:
        """Who waits for whom, when all wait."""
        lines = [
            f"%{m.name} of {list(m.group)} lacks {sorted(set(m.group) - set(m.work))}"
            for m in self.open.values()
        ]
        return HloError(
            f"the devices wait for one another: {'; '.join(lines) or 'for data never sent'}",
            rule="sim-deadlock",
            hint="devices that meet must come to their collectives in one order",
        )

    def _event(self, channel: int, source: int, n: int) -> Event:
        return self._sent.setdefault((channel, source, n), Event(f"channel {channel}"))

    def _count(self, *key: object) -> int:
        n = self._times.get(key, 0)
        self._times[key] = n + 1
        return n
