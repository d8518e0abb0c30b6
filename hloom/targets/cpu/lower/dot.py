"""Dots and convolutions: a kernel of the family that their sizes ask for."""

from __future__ import annotations

from hloom.codegen.tile import Body
from hloom.ir.instruction import Instruction
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering


@CPU_LOWERS.of("dot", "convolution")
def product(cpu: Lowering, i: Instruction) -> list[Thunk]:
    return cpu.body(i, Body.of(i))
