"""What tuning tries on a CPU: kernels of products and convolutions, in a module of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hloom.base.diagnostics import HloError
from hloom.base.faults import CompilerFaultError
from hloom.codegen.product import Product
from hloom.codegen.tile import Body
from hloom.ir.copy import copy_module
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.passes.pipeline import PipelineOptions
from hloom.runtime.executor import Executor
from hloom.targets.cpu.lower.families import FAMILIES
from hloom.targets.cpu.lower.hosted import alone, can_be_hosted
from hloom.targets.cpu.target import CpuTarget
from hloom.targets.cpu.tuning.candidates import candidates
from hloom.targets.cpu.tuning.choice import Choice
from hloom.targets.cpu.tuning.profiler import Measured, profiled

ROUNDS, BUDGET_S = {False: 12, True: 40}, {False: 0.4, True: 3.0}
"""Of measuring a kernel quickly, and thoroughly."""
AS_IT_IS = PipelineOptions(disable_all_hlo_passes=True)


@dataclass(frozen=True)
class CpuBackend:
    """Compiles for a target as it is, and runs on so many threads (None: all)."""

    target: CpuTarget
    threads: int | None = None

    def candidates(self, i: Instruction, is_thorough: bool) -> list[Choice]:
        if not can_be_hosted(i):
            return []
        return candidates(i, self.target.device, is_thorough)

    def alone(self, i: Instruction) -> Module:
        return alone(i)

    def profiled(
        self, module: Module, choices: Sequence[Choice], is_thorough: bool
    ) -> list[Measured]:
        body = Body.of(module.entry.root)
        variants = [
            (c.text, self._compiler(module, c), self._scratch_bytes(body, c)) for c in choices
        ]
        measured = profiled(variants, module, ROUNDS[is_thorough], BUDGET_S[is_thorough])
        if self.target.is_strict and (wrong := [m for m in measured if m.is_wrong]):
            text = f"the candidate {wrong[0].text!r} is wrong: {wrong[0].failure}"
            raise CompilerFaultError(text, rule="compiler-fault")
        return measured

    def _compiler(self, module: Module, choice: Choice) -> Callable[[], Executor]:
        """Compiles the module with that choice, and nothing else done to it."""
        fixed = replace(
            self.target, tuning=Fixed(choice), passes=AS_IT_IS, is_strict=True, compile_threads=1
        )

        def compile_it() -> Executor:
            stages = fixed.compile(copy_module(module))
            if choice.family not in {c.name for c in stages.lowering.families.values()}:
                raise HloError(f"{choice.text} was not used", rule="autotune")
            return Executor(stages.program, self.threads)

        return compile_it

    def _scratch_bytes(self, body: Body, choice: Choice) -> int:
        if choice.tiling is None:
            return 0
        family = next(f for f in FAMILIES if f.name == choice.family)
        form = family.form(body, self.target.device)
        return choice.tiling.scratch_bytes(form) if isinstance(form, Product) else 0


@dataclass(frozen=True)
class Fixed:
    """The same choice for every instruction that has any."""

    choice: Choice

    def choices(self, instructions: Sequence[Instruction]) -> dict[Instruction, Choice]:
        return {
            i: self.choice for i in instructions if i.opcode in ("fusion", "dot", "convolution")
        }
