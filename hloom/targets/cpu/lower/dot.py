"""Dots."""

from __future__ import annotations

from hloom.codegen.loops import loop_kernel
from hloom.codegen.tile import Body
from hloom.ir.instruction import Instruction
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering


@CPU_LOWERS.of("dot")
def dot(cpu: Lowering, i: Instruction) -> list[Thunk]:
    return cpu.kernel(i, lambda: loop_kernel(Body.of(i), cpu.vector_bytes))
