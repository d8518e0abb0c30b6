"""Chooses the code-generation options of a kernel by measuring: of concatenations, and of scatters,
alone or at the end of a fusion. (Our fusions have no scatters; those of others are taken apart.)

The eight candidates are all combinations of rolled loops, of no vectors made of scalars, and of
small code. The winner is written into the instruction's backend config, where `lowering` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from hloom.base.diagnostics import UsageError
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.text.options import PrintOptions
from hloom.ir.text.show import show_module
from hloom.ir.values.backend_config import BackendConfig
from hloom.ir.values.backend_schema import LlvmKernelOptions
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult
from hloom.runtime.executor import Executor
from hloom.targets.cpu.lower.hosted import alone, can_be_hosted
from hloom.targets.cpu.tuning.profiler import Measured, profiled
from hloom.targets.cpu.tuning.tuner import LEAST_GAIN, select

if TYPE_CHECKING:
    from hloom.rewrite.driver import Trace
    from hloom.targets.cpu.target import CpuTarget

SWITCHES = ("disable_loop_unrolling", "slp_vectorizer_disabled", "optimize_for_size")
FIELD = "llvm_kernel_options"
DEFAULT = LlvmKernelOptions()


def option_configs(i: Instruction) -> list[LlvmKernelOptions]:
    """What can be tried for an instruction, the default first; empty for one that is not supported,
    or whose backend config is no JSON, of which nothing may be lost."""
    if i.backend_config and i.backend_config.json is None:
        return []
    if i.opcode not in ("concatenate", "scatter") and not _ends_in_scatter(i):
        return []
    return [
        LlvmKernelOptions(**dict(zip(SWITCHES, values)))
        for values in product((False, True), repeat=len(SWITCHES))
    ]


def _ends_in_scatter(i: Instruction) -> bool:
    return i.opcode == "fusion" and i.called[0].root.opcode == "scatter"


def apply_options(i: Instruction, config: object) -> bool:
    """Write a config into the backend config of an instruction, beside what else stands there;
    whether that changed it. `UsageError` for a config of another backend."""
    if not isinstance(config, LlvmKernelOptions):
        raise UsageError(
            f"{config!r} is no config of LLVM kernels, so that it cannot be applied to %{i.name}",
            rule="autotune",
            hint="LlvmKernelOptions(...)",
        )
    known = i.backend_config.json if i.backend_config else None
    value = {**(known or {}), FIELD: {k: v for k, v in asdict(config).items() if v}}
    new = BackendConfig.from_json(value)
    if i.backend_config == new:
        return False
    i.backend_config = new
    return True


def options_text(config: LlvmKernelOptions) -> str:
    """`disable_loop_unrolling optimize_for_size`, `default`: equal for equal configs."""
    return " ".join([name for name in SWITCHES if getattr(config, name)]) or "default"


Measure = Callable[[Instruction, Sequence[LlvmKernelOptions]], "list[Measured]"]


@dataclass(frozen=True)
class LlvmKernelAutotuner(Pass):
    """Tune the code-generation options of every kernel that supports it; nothing is remembered, and
    results are not compared: no option changes what is computed."""

    name = "llvm-kernel-autotuner"

    measure: Measure | None = None
    """What each config takes; None: nothing is measured, and nothing changed."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        result, known = PassResult(), dict[str, LlvmKernelOptions]()
        for c in module.computations_in_order():
            if c.is_fusion or (threads and c.execution_thread not in threads):
                continue
            for i in c.instructions:
                configs = option_configs(i) if self.measure is not None else []
                if not configs:
                    continue
                key = show_module(alone(i), PrintOptions.fingerprint())
                if key not in known:
                    known[key] = self._best(i, configs)
                if apply_options(i, known[key]):
                    result.changed = True
                    result.fired[i.opcode] += 1
        return result

    def _best(self, i: Instruction, configs: list[LlvmKernelOptions]) -> LlvmKernelOptions:
        """The fastest config; the default unless another is clearly faster."""
        assert self.measure is not None
        measured = self.measure(i, configs)
        best, first = select(measured, 0.0, f"%{i.name}"), measured[0]
        if not first.failure and best.seconds >= (1 - LEAST_GAIN) * first.seconds:
            return configs[0]
        return configs[next(k for k, m in enumerate(measured) if m is best)]


@dataclass(frozen=True)
class OptionsBackend:
    """Compiles an instruction alone, for a target, with each config, and runs it."""

    target: CpuTarget
    threads: int | None = None
    rounds: int = 12
    budget_s: float = 0.4

    def measure(self, i: Instruction, configs: Sequence[LlvmKernelOptions]) -> list[Measured]:
        """What each config takes; failures are told in the result."""
        if not can_be_hosted(i):
            return [Measured(options_text(c), failure="it has effects") for c in configs]
        variants = [(options_text(c), self.compiler(i, c), 0) for c in configs]
        return profiled(variants, alone(i), self.rounds, self.budget_s, compares=False)

    def compiler(self, i: Instruction, config: LlvmKernelOptions) -> Callable[[], Executor]:
        """Compiles the instruction in a module of its own with a config."""
        from hloom.passes.pipeline import PipelineOptions

        passes = PipelineOptions(disable_all_hlo_passes=not _ends_in_scatter(i))
        target = replace(self.target, tuning=None, passes=passes, is_strict=True, compile_threads=1)

        def compile_it() -> Executor:
            module = alone(i)
            root = module.entry.root
            apply_options(root.called[0].root if _ends_in_scatter(i) else root, config)
            return Executor(target.compile(module).program, self.threads)

        return compile_it
