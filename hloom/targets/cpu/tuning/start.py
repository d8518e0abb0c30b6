"""From what options say of tuning to a target that is tuned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path

from hloom.base.diagnostics import UsageError, did_you_mean
from hloom.ir.instruction import Instruction
from hloom.ir.values.backend_schema import LlvmKernelOptions
from hloom.targets.cpu.cache_key import device_text
from hloom.targets.cpu.target import CpuTarget
from hloom.targets.cpu.tuning.backend import BUDGET_S, ROUNDS, CpuBackend
from hloom.targets.cpu.tuning.kernel_options import LlvmKernelAutotuner, OptionsBackend
from hloom.targets.cpu.tuning.log import TuningLog
from hloom.targets.cpu.tuning.profiler import Measured
from hloom.targets.cpu.tuning.results import result_cache
from hloom.targets.cpu.tuning.tuner import MODES, Tuner


@dataclass(frozen=True)
class Files:
    """What tuning begins with, writes in the end, and appends to; None where nothing is said."""

    load: Path | None
    export: Path | None
    log: Path | None

    @staticmethod
    def of(load: str, export: str, log: str) -> Files:
        """From paths, of which any may be empty."""
        return Files(*[Path(path) if path else None for path in (load, export, log)])


def tuner_of(
    target: CpuTarget, mode: str, files: Files, is_complete: bool, threads: int | None
) -> CpuTarget:
    """The target with a tuner."""
    if mode not in MODES:
        raise UsageError(
            f"autotune is {mode!r}; known are {', '.join(MODES)}",
            rule="autotune",
            hint=did_you_mean(mode, MODES),
        )
    if is_complete and mode != "load":
        raise UsageError("autotune_complete is for autotune=load", rule="autotune")
    device = device_line(target)
    log = TuningLog(files.log, device) if files.log is not None else None
    measure = options_backend(target, threads, mode).measure
    tuner = Tuner(
        mode,
        device,
        partial(CpuBackend, target, threads),
        result_cache(device),
        files.load,
        files.export,
        is_complete,
        log=log,
        options_pass=LlvmKernelAutotuner(measure if log is None else logged(measure, log)),
    )
    return replace(target, tuning=tuner)


def logged(
    measure: Callable[[Instruction, Sequence[LlvmKernelOptions]], list[Measured]], log: TuningLog
) -> Callable[[Instruction, Sequence[LlvmKernelOptions]], list[Measured]]:
    """The same measuring of code-generation options, written to a log."""

    def measured(i: Instruction, configs: Sequence[LlvmKernelOptions]) -> list[Measured]:
        results = measure(i, configs)
        log.add(i.name, f"llvm_kernel_options of {i.opcode} {i.shape.text_without_layout}", results)
        return results

    return measured


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
