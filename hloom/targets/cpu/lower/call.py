"""Fusions, and what needs no code at all."""

from __future__ import annotations

from hloom.codegen.tile import Body
from hloom.ir.instruction import Instruction
from hloom.program.thunks.control import Call
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lower.dot import hero_kernel, hero_of
from hloom.targets.cpu.lower.elementwise import body_thunks
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering


@CPU_LOWERS.of("fusion")
def fusion(cpu: Lowering, i: Instruction) -> list[Thunk]:
    body = Body.of(i)
    hero = hero_of(body)
    if hero is not None:
        return cpu.kernel(i, lambda: hero_kernel(body, hero, cpu.vector_bytes))
    return body_thunks(cpu, i, body)


@CPU_LOWERS.of("call")
def call(cpu: Lowering, i: Instruction) -> list[Thunk]:
    return [Call(i.name, cpu.sequence(i.called[0]))]


@CPU_LOWERS.of(
    "parameter",
    "constant",
    "tuple",
    "get-tuple-element",
    "bitcast",
    "after-all",
    "add-dependency",
    "domain",
    "opt-barrier",
)
def nothing(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """These only name memory that is there."""
    return []
