"""The debug executor for several devices, each of which has steps and times of its own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from hloom.device.device import Device
from hloom.runtime.buffer import Buffer
from hloom.runtime.communicator.in_process import InProcess
from hloom.runtime.debug import DebugExecutor, Watch, run_in_place
from hloom.runtime.executor import Executor
from hloom.runtime.library import library


def device_number(context: int, count: int) -> int:
    """Which of the devices of a run a native call is for."""
    number = ctypes.c_uint32(0)
    if count > 1:
        one, all_ = ctypes.c_int64(1), ctypes.c_int64(count)
        at = ctypes.c_void_p(context)
        library().hl_device_number(at, b"", one, all_, ctypes.byref(number))
    return number.value


class DebugDevices:
    """Runs a program on all of its devices from Python, each in a thread of its own.

    What one device does in Python keeps the others from doing so; native calls do not.
    """

    def __init__(
        self,
        executor: Executor,
        device: Device,
        watch: Callable[[], Watch | None] = lambda: None,
    ) -> None:
        """`watch` is asked once for each device."""
        self.executor = executor
        count = executor.program.device_count
        self.devices = [DebugExecutor(executor, device, watch()) for _ in range(count)]
        for debug in self.devices:
            debug.numbers = self.devices[0].numbers

    def run(
        self, together: InProcess, leaves: Sequence[Sequence[Any]]
    ) -> list[list[Buffer | None]]:
        """As `Executor.run_devices`."""

        def main(context: int, buffers: int) -> int:
            debug = self.devices[device_number(context, len(self.devices))]
            debug.enter(context, buffers)
            return debug.sequence(self.executor.program.thunks)

        return run_in_place(main, lambda entry: self.executor.run_devices(together, leaves, entry))
