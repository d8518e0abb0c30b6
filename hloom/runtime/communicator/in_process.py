"""Devices that are threads of this process and meet in memory (native/devices.cc).

Some of a program may be in other processes, which do the same (native/communicator_far.h).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int32, c_int64, c_void_p
from itertools import count
from typing import Any, NamedTuple

from hloom.device.ids import GlobalDeviceId, global_number
from hloom.runtime.beside_python import beside_python
from hloom.runtime.communicator.patience import Patience
from hloom.runtime.communicator.processes import Processes
from hloom.runtime.library import allocated, library
from hloom.runtime.loaded_program import RawProblem, raise_problem
from hloom.runtime.native import Owner
from hloom.runtime.raised import take_raised

_NUMBERS = count(1)
"""Of programs across processes: each process makes the same ones in the same order."""


class Health(NamedTuple):
    """What the devices of a program have done together."""

    runs: int
    under_way: int
    first_meetings: int
    """How often all devices met to begin with: once, in the first run."""
    cliques: int
    """Groups that were found out for a device; later runs look them up."""


class InProcess(Owner):
    """The devices that run one program, any number of times, also at once."""

    __slots__ = ("count", "patience", "processes")

    def __init__(
        self,
        count: int,
        patience: Patience | None = None,
        processes: Processes | None = None,
        fingerprint: int = 0,
    ) -> None:
        """With `processes` the devices are spread over them, and `count` becomes how many are in
        this one; `fingerprint` says whether all run the same program."""
        self.count = count
        self.patience = patience or Patience()
        self.processes = processes
        native = library()
        limits = [int(seconds * 1e9) for seconds in self.patience]
        handle = allocated(native.hl_devices_new(count, *limits), "devices")
        self._own(handle, native.hl_devices_free)
        if processes is not None:
            self.count = len(processes.own_part(count))
            places = (c_int32 * count)(*[d // self.count for d in range(count)])
            number = next(_NUMBERS)
            native.hl_devices_across(handle, processes.handle, number, fingerprint, places)

    def run(
        self,
        program: int,
        arguments: Sequence[Any],
        results: Sequence[Any],
        entry: int | None = None,
        *,
        interruptible: bool = False,
    ) -> None:
        """Run a loaded program on all devices, with native arrays for each of them; ExecutionError
        if one fails. `entry`: the address of another main function that does its work.

        Ctrl-C ends an interruptible run, which is in threads of its own then.
        """
        contexts, problem = (c_void_p * self.count)(), RawProblem()
        argument_places, result_places = (
            (c_void_p * self.count)(*[ctypes.addressof(each) for each in arrays])
            for arrays in (arguments, results)
        )

        def run() -> int:
            native = library()
            status = native.hl_program_run_devices(
                program, self.handle, self.count, entry, argument_places, result_places, contexts
            )
            if status:
                native.hl_last_problem(ctypes.byref(problem))
            return status

        status = beside_python(run, self.abort) if interruptible else run()
        if status:
            raised = [take_raised(context) for context in contexts if context]
            raise_problem(problem, next((error for error in raised if error is not None), None))

    def abort(self, message: str = "the run was cancelled") -> None:
        """End all runs under way, as an error of each device. Any thread may."""
        library().hl_devices_abort(self.handle, 1, message.encode())

    def stop(self, device: GlobalDeviceId | None) -> None:
        """Let a device stop where it meets others, so that they wait; None lets it go on."""
        library().hl_devices_stop(self.handle, -1 if device is None else global_number(device))

    def health(self) -> Health:
        """What has happened so far."""
        numbers = (c_int64 * len(Health._fields))()
        library().hl_devices_health(self.handle, numbers)
        return Health(*numbers)
