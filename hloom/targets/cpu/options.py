"""What the compiler's options mean for the CPU; an option that nothing acts on is said to be so."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hloom.base.diagnostics import UsageError
from hloom.base.options import Options
from hloom.runtime.communicator.patience import PATIENCE_OPTIONS
from hloom.targets.cpu.libraries import registered_libraries

if TYPE_CHECKING:
    from hloom.codegen.llvm.machine import Machine
    from hloom.device.device import Device
    from hloom.targets.cpu.target import CpuTarget

PASS_LISTS = ("disable_hlo_passes", "enable_hlo_passes_only")
PASS_OPTIONS = (
    *PASS_LISTS,
    "disable_all_hlo_passes",
    "hlo_pass_fix_detect_cycles",
    "unsupported_crash_on_hlo_pass_fix_max_iterations",
    "unsupported_crash_on_hlo_pass_noop_change",
    "unsupported_crash_on_hlo_pass_silent_hlo_change",
)
KERNEL_OPTIONS = (
    "cpu_enable_fast_math",
    "cpu_fast_math_honor_division",
    "cpu_fast_math_honor_functions",
    "cpu_fast_math_honor_infs",
    "cpu_fast_math_honor_nans",
)
TUNING_OPTIONS = (
    "autotune",
    "autotune_complete",
    "autotune_export",
    "autotune_load",
    "autotune_log",
)
TUNING_SWITCH = "gpu_autotune_level"
"""0 is `autotune=off`, whatever is asked beside it; every other level leaves it as it is: results
are checked, and wrong ones left out, at all of them."""
TARGET_OPTIONS = ("target_triple", "target_cpu", "target_features")
COMPILE_OPTIONS = frozenset(
    (
        *TARGET_OPTIONS,
        *PASS_OPTIONS,
        *TUNING_OPTIONS,
        TUNING_SWITCH,
        *KERNEL_OPTIONS,
        *PATIENCE_OPTIONS,
        "allow_excess_precision",
        "cpu_max_isa",
        "cpu_scheduler_type",
        "cpu_parallel_codegen_split_count",
        "slow_compile_alarm_seconds",
        "strict_compilation",
    )
)
"""The options that compilation acts on."""
KEPT_OPTIONS = COMPILE_OPTIONS - {
    *PATIENCE_OPTIONS,
    *TUNING_OPTIONS,  # programs that are tuned are not kept
    TUNING_SWITCH,
    "cpu_parallel_codegen_split_count",
    "slow_compile_alarm_seconds",
    "strict_compilation",
}
"""Those of them that the program depends on."""
ALWAYS: dict[str, Any] = {
    "cpu_enable_fast_min_max": False,
    "cpu_generate_unique_c_style_kernel_entry_points": True,
}
"""Options that are met with this value only, whatever is asked."""


def options_without_effect(options: Options) -> list[str]:
    """Those that were given and that compilation does not act on, and unknown names of passes."""
    values = options.given
    unread = options.unread(COMPILE_OPTIONS)
    ignored = [name for name in unread if ALWAYS.get(name, ...) != values[name]]
    if any(options[name] for name in PASS_LISTS):  # no pass is imported for others
        from hloom.targets.cpu.known_passes import unknown_passes

        ignored += unknown_passes({name: options[name] for name in PASS_LISTS})
    return ignored


def is_strict(options: Options, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether faults of the compiler are raised: asked for, or a pass is to crash on some."""
    if "strict_compilation" in options.given:
        return options["strict_compilation"]
    crashes = [name for name in PASS_OPTIONS if name.startswith("unsupported_crash")]
    return environment.get("HLOOM_STRICT", "") in ("1", "true") or any(options[n] for n in crashes)


SCHEDULERS = {
    "default": "default",
    "memory_optimized": "memory",
    "concurrency_optimized": "concurrency",
}


def scheduler_of(options: Options) -> str:
    """Who runs side by side: a value of `CpuTarget.scheduler`."""
    text = options["cpu_scheduler_type"]
    name = text.lower().replace(" ", "_").replace("optimised", "optimized")
    scheduler = SCHEDULERS.get(name.removeprefix("cpu_scheduler_type_"))
    if scheduler is None:
        raise UsageError(
            f"cpu_scheduler_type is {text!r}; known are {', '.join(SCHEDULERS)}", rule="option"
        )
    return scheduler


def cpu_target(options: Options, threads: int | None = None) -> CpuTarget:
    """The CPU of this machine, as the options want it used; `threads` are all that may work."""
    # Here, for who asks the options only: with the passes, this takes half a second to import.
    from hloom.codegen.llvm.module import KernelOptions
    from hloom.passes.pipeline import PipelineOptions
    from hloom.runtime.processors import checked_threads, granted_threads
    from hloom.targets.cpu.target import CpuTarget

    compile_threads = min(
        checked_threads(threads), granted_threads(), options["cpu_parallel_codegen_split_count"]
    )
    return CpuTarget(
        machine_of(options),
        compile_threads=max(1, compile_threads),
        passes=PipelineOptions(
            disable_hlo_passes=frozenset(options["disable_hlo_passes"]),
            enable_hlo_passes_only=frozenset(options["enable_hlo_passes_only"]),
            disable_all_hlo_passes=options["disable_all_hlo_passes"],
            detect_cycles=options["hlo_pass_fix_detect_cycles"],
            crash_on_fix_max_iterations=options["unsupported_crash_on_hlo_pass_fix_max_iterations"],
            crash_on_noop_change=options["unsupported_crash_on_hlo_pass_noop_change"],
            crash_on_silent_change=options["unsupported_crash_on_hlo_pass_silent_hlo_change"],
        ),
        kernels=KernelOptions(
            fast_math=options["cpu_enable_fast_math"],
            honor_nans=options["cpu_fast_math_honor_nans"],
            honor_infs=options["cpu_fast_math_honor_infs"],
            honor_division=options["cpu_fast_math_honor_division"],
            honor_functions=options["cpu_fast_math_honor_functions"],
        ),
        excess_precision=options["allow_excess_precision"],
        scheduler=scheduler_of(options),
        is_strict=is_strict(options),
        kernel_device=device_of_options(options),
        libraries=registered_libraries(),
    )


def is_elsewhere(options: Options) -> bool:
    """Whether code is to be made for a machine that was named."""
    return any(options[name] for name in TARGET_OPTIONS)


def machine_of(options: Options) -> Machine:
    """The machine to make code for."""
    from hloom.codegen.llvm.machine import Machine
    from hloom.codegen.llvm.other_machine import other_machine

    if not is_elsewhere(options):
        return Machine.host(options["cpu_max_isa"])
    machine = other_machine(*[options[name] for name in TARGET_OPTIONS])
    return machine.capped(options["cpu_max_isa"]) if options["cpu_max_isa"] else machine


def device_of_options(options: Options) -> Device | None:
    """What kernels are cut for where a machine was named; None where it is the one at hand."""
    if not is_elsewhere(options):
        return None
    from hloom.targets.cpu.device import described

    return described(machine_of(options))


def tuned(target: CpuTarget, options: Options, threads: int | None) -> CpuTarget:
    """A target whose kernels are chosen as `autotune` says; `UsageError` for a mode that there is
    not, and for files that nothing would read or write."""
    mode = options["autotune"]
    if options[TUNING_SWITCH] == 0:
        return target
    load_path, export, log, complete = [
        options[f"autotune_{name}"] for name in ("load", "export", "log", "complete")
    ]
    if mode == "off":
        if tuning_options := [n for n in TUNING_OPTIONS[1:] if options[n]]:
            raise UsageError(
                f"{tuning_options[0]} does nothing with autotune=off",
                rule="autotune",
                hint="autotune=load takes results, autotune=quick measures",
            )
        return target
    if mode == "load" and log:
        raise UsageError(
            "autotune_log does nothing with autotune=load, which measures nothing",
            rule="autotune",
            hint="autotune=quick measures",
        )
    from hloom.targets.cpu.tuning.start import Files, tuner_of

    return tuner_of(target, mode, Files.of(load_path, export, log), complete, threads)
