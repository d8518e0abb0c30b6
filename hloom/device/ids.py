"""Numbers of devices, of two types that do not mix: of one process, and of all processes.

Passing one where the other is wanted is an error of types for pyright, and making one of the other,
comparing, sorting or adding them to each other or to plain numbers is one when it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import SupportsIndex


@dataclass(frozen=True, slots=True, order=True)
class LocalDeviceId:
    """The number of a device among those of its process, from 0 on."""

    value: int

    def __post_init__(self) -> None:
        _expect_number(self)

    def __str__(self) -> str:
        return f"local {self.value}"


@dataclass(frozen=True, slots=True, order=True)
class GlobalDeviceId:
    """The number of a device among those of all processes, from 0 on."""

    value: int

    def __post_init__(self) -> None:
        _expect_number(self)

    def __str__(self) -> str:
        return str(self.value)


def global_number(device: GlobalDeviceId) -> int:
    """The number of a device among all; a `TypeError` for a device of one process, or a number."""
    if not isinstance(device, GlobalDeviceId):
        raise TypeError(f"{device!r} is no GlobalDeviceId")
    return device.value


def _expect_number(device: LocalDeviceId | GlobalDeviceId) -> None:
    # Programs for many devices make millions; asking the protocol takes a hundred times as long.
    if type(device.value) is not int and not isinstance(device.value, SupportsIndex):
        raise TypeError(f"{type(device).__name__}({device.value!r}): a device has a whole number")
