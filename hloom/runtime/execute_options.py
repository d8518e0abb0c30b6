"""What a caller says of one run of a program, and not of the program (native/launch.h)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import c_int64, c_void_p
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hloom.base.diagnostics import UsageError
from hloom.device.assignment import DeviceAssignment
from hloom.device.ids import GlobalDeviceId, LocalDeviceId
from hloom.program.program import Program
from hloom.runtime.communicator.in_process import InProcess
from hloom.runtime.native import Pool


@dataclass(frozen=True)
class ExecuteOptions:
    """How one run differs from others: its threads, its device, what handlers find."""

    threads: int | None = None
    """How many may work on it; None: those that the program was loaded with."""
    user_data: Mapping[int, int] = field(default_factory=dict)
    """Addresses by a type's number, which handlers of custom calls ask for (`Call.user_data`)."""
    device: GlobalDeviceId | int | None = None
    """Which device of the assignment it runs on; the others of the program run beside it, each by
    a call in a thread of its own. None: of a program for one device the one it has."""
    local_device: LocalDeviceId | int | None = None
    """What handlers are told (`Call.device`); None: the device's number in the program."""
    launch_id: int = 0
    """Devices meet those that have the same: the n-th runs of all devices with one number."""


class RawUserData(ctypes.Structure):
    """hloom::UserData of native/context.h."""

    _fields_ = [("type_id", c_int64), ("data", c_void_p)]


class Launch(NamedTuple):
    """The same as the native runtime takes it; `alive` must be held while it runs."""

    pool: int | None
    user_data: Any
    user_data_count: int
    devices: int | None
    device: int
    local_device: int
    launch_id: int
    alive: tuple[Any, ...]


def launch_of(
    options: ExecuteOptions, program: Program, assignment: DeviceAssignment, together: InProcess
) -> Launch:
    """`UsageError` for a device that the assignment has not."""
    pool = None if options.threads is None else Pool.shared(options.threads)
    rows = [RawUserData(t, address) for t, address in options.user_data.items()]
    user_data = (RawUserData * max(len(rows), 1))(*rows)
    number = _number(options.device, program, assignment)
    local = number if options.local_device is None else _value(options.local_device)
    return Launch(
        None if pool is None else pool.handle,
        user_data,
        len(rows),
        together.handle if program.meets_others else None,
        number,
        local,
        options.launch_id,
        (pool, together),
    )


def _number(
    device: GlobalDeviceId | int | None, program: Program, assignment: DeviceAssignment
) -> int:
    """Of a device in the program: replica * partitions + partition."""
    places = [d.value for d in assignment.flat]
    if device is None and len(places) == 1:
        return 0
    if device is None:
        wrong = f"{program.name} is for {len(places)} devices, and none is named"
    elif _value(device) not in places:
        wrong = f"device {_value(device)} is not in the assignment {assignment.text}"
    else:
        return places.index(_value(device))
    raise UsageError(wrong, rule="device-assignment", hint=f"one of {assignment.text}")


def _value(device: GlobalDeviceId | LocalDeviceId | int) -> int:
    return device if isinstance(device, int) else device.value
