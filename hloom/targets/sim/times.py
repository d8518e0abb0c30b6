"""How long each thunk of a program takes on a device that is not here, in nanoseconds."""

from __future__ import annotations

from hloom.device.device import Device
from hloom.device.timing import copy_ns, kernel_ns, routine_ns
from hloom.program.thunks.async_call import AsyncDone
from hloom.program.thunks.async_copy import CopyDone
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.thunk import Thunk
from hloom.program.thunks.while_ import While
from hloom.targets.sim.streams import spaces
from hloom.targets.stages import Stages
from hloom.targets.thunk_work import ThunkWork

UNKNOWN_TRIPS = 10
"""Of a loop that may run as long as it likes: only for choosing streams."""


class ThunkTimes:
    """Asks the device for the time of what a thunk computes and of the bytes that it touches."""

    def __init__(self, stages: Stages, device: Device) -> None:
        self.device = device
        self._work = ThunkWork(stages, device.costs)
        self._known: dict[Thunk, float] = {}

    def __call__(self, t: Thunk) -> float:
        """The time of a thunk, what is inside it included."""
        time = self._known.get(t)
        if time is None:
            time = self._known[t] = self._of(t)
        return time

    def _of(self, t: Thunk) -> float:
        if isinstance(t, AsyncDone | CopyDone):
            return 0.0  # it waits, and does nothing
        if isinstance(t, Copy):
            return copy_ns(self.device, t.target.size_bytes, *spaces(t))
        if isinstance(t, While):
            condition, body = [sum(map(self, n.thunks)) for n in t.nested()]
            n = UNKNOWN_TRIPS if t.trip_count is None else t.trip_count
            return n * body + (0 if t.trip_count is not None else (n + 1) * condition)
        if nested := t.nested():
            return max([sum(map(self, n.thunks)) for n in nested])
        work = self._work(t)
        if isinstance(t, Kernel):
            operations = sum(work.operations.values()) + work.transcendentals
            return kernel_ns(self.device, operations, work.moved, work.dtype, work.is_matrix)
        return routine_ns(self.device, t.serial_ns(self.device.costs), work.moved)
