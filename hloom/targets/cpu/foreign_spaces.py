"""Programs that were compiled for a machine with other memory, such as a TPU, run here too."""

import warnings

from hloom.device.device import Device
from hloom.ir.module import Module
from hloom.memory.spaces import forget_foreign_spaces


def keep_foreign_spaces_here(module: Module, device: Device) -> None:
    """Have values of memory spaces that the device lacks in its default memory, and say so."""
    foreign = forget_foreign_spaces(module, device)
    if not foreign:
        return
    first = next(iter(foreign.values()))
    where = f"%{first.parent.name}/%{first.name}"
    spaces = ", ".join(f"S({space})" for space in sorted(foreign))
    warnings.warn(
        f"{where}: {device.name} has no memory space {spaces}; such values are in its default "
        "memory, and the results are the same",
        stacklevel=2,
    )
