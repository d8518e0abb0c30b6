"""What a program for this processor depends on, part by part, but the module.

The processor counts as it describes itself: LLVM makes of that which features it uses, and takes
50 ms to import.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hloom.base.guarding import GUARDING
from hloom.base.installed import hloom_version, installed_version
from hloom.base.options import Options
from hloom.device.device import Device
from hloom.device.probe import probed_caches
from hloom.runtime.processor_identity import processor_identity
from hloom.runtime.processors import granted_threads
from hloom.targets.cpu.libraries import registered_libraries
from hloom.targets.cpu.options import KEPT_OPTIONS


def other_parts(options: Options) -> dict[str, str]:
    """Name and value of every part."""
    return {
        "options": options_text(options),
        "processor": processor_identity() or _features(),
        "hloom": hloom_version(),
        "llvm": installed_version("llvmlite"),
        "guard": "on" if GUARDING else "off",
    }


def device_text(device: Device | None) -> str:
    """What kernels are cut by: the device that was named, or the cores and caches at hand."""
    if device is not None:
        return repr(device)
    return _at_hand(granted_threads())


@cache
def _at_hand(units: int) -> str:
    caches = [f"{c.size_bytes // c.units}" for c in probed_caches(Path("/"), units)]
    return f"{units} cores, caches of {' '.join(caches) or 'unknown size'}"


def is_cacheable(options: Options) -> bool:
    """Whether nobody watches the compilation, so that it may as well not happen, and the program
    follows from what it is made of, not from measuring."""
    if registered_libraries():  # what these accept is not known before they are asked
        return False
    return options["autotune"] == "off" and not (
        options["unsupported_crash_on_hlo_pass_noop_change"]
        or options["unsupported_crash_on_hlo_pass_silent_hlo_change"]
    )


def options_text(options: Options) -> str:
    """Every option that the program depends on, as `name=value` words; sets have no order."""
    words = []
    for name in sorted(KEPT_OPTIONS):
        value = options[name]
        if isinstance(value, tuple | list | set | frozenset):
            value = ",".join(sorted(set(map(str, value))))
        words.append(f"{name}={value}")
    return " ".join(words)


@cache
def _features() -> str:
    """What LLVM says of a processor that does not describe itself."""
    from hloom.codegen.llvm.machine import Machine

    return " ".join(Machine.host().as_dict().values())
