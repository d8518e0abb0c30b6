"""Numbers of devices, of two types that do not mix: of one process, and of all processes.

Passing one where the other is wanted is an error of types for pyright, and comparing, sorting or
adding them to each other or to plain numbers is one when it runs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class LocalDeviceId:
    """The number of a device among those of its process, from 0 on."""

    value: int

    def __str__(self) -> str:
        return f"local {self.value}"


@dataclass(frozen=True, slots=True, order=True)
class GlobalDeviceId:
    """The number of a device among those of all processes, from 0 on."""

    value: int

    def __str__(self) -> str:
        return str(self.value)
