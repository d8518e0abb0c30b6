"""From what options say of tuning to a target that is tuned."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

from hloom.base.diagnostics import UsageError, did_you_mean
from hloom.targets.cpu.cache_key import device_text
from hloom.targets.cpu.target import CpuTarget
from hloom.targets.cpu.tuning.backend import BUDGET_S, ROUNDS, CpuBackend
from hloom.targets.cpu.tuning.kernel_options import LlvmKernelAutotuner, OptionsBackend
from hloom.targets.cpu.tuning.results import result_cache
from hloom.targets.cpu.tuning.tuner import MODES, Tuner


def tuner_of(
    target: CpuTarget,
    mode: str,
    load_path: str,
    export: str,
    is_complete: bool,
    threads: int | None,
) -> CpuTarget:
    """The target with a tuner; `load_path` and `export` are paths, or empty."""
    if mode not in MODES:
        raise UsageError(
            f"autotune is {mode!r}; known are {', '.join(MODES)}",
            rule="autotune",
            hint=did_you_mean(mode, MODES),
        )
    if is_complete and mode != "load":
        raise UsageError("autotune_complete is for autotune=load", rule="autotune")
    device = device_line(target)
    tuner = Tuner(
        mode,
        device,
        partial(CpuBackend, target, threads),
        result_cache(device),
        Path(load_path) if load_path else None,
        Path(export) if export else None,
        is_complete,
        options_pass=LlvmKernelAutotuner(options_backend(target, threads, mode).measure),
    )
    return replace(target, tuning=tuner)


def options_backend(target: CpuTarget, threads: int | None, mode: str) -> OptionsBackend:
    """What measures code-generation options, for as long as the mode allows."""
    is_thorough = mode == "full"
    return OptionsBackend(target, threads, ROUNDS[is_thorough], BUDGET_S[is_thorough])


def device_line(target: CpuTarget) -> str:
    """What results depend on, in a line: processor, what of it may be used, cores, caches."""
    machine = target.machine
    features = sha256(repr(sorted(machine.as_dict().items())).encode()).hexdigest()[:12]
    about = device_text(target.kernel_device)
    if target.kernel_device is not None:
        about = f"cut for {target.kernel_device.name} {sha256(about.encode()).hexdigest()[:12]}"
    return f"{machine.cpu} ({features}), {about}"
