"""Fusions, and what needs no code at all."""

from __future__ import annotations

from hloom.codegen.tile import Body, is_update
from hloom.ir.instruction import Instruction
from hloom.program.thunks.control import Call
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lower.dot import hero_kernel, hero_of
from hloom.targets.cpu.lower.elementwise import body_thunks
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering, unsupported


@CPU_LOWERS.of("fusion")
def fusion(cpu: Lowering, i: Instruction) -> list[Thunk]:
    body = Body.of(i)
    moved = moved_operands(cpu, i, body)
    hero = hero_of(body)
    if hero is not None:
        return moved + cpu.kernel(i, lambda: hero_kernel(body, hero, cpu.vector_bytes))
    return moved + body_thunks(cpu, i, body)


def moved_operands(cpu: Lowering, i: Instruction, body: Body) -> list[Thunk]:
    """Copies of operands to the results that update them, where those do not stand there already.

    A kernel writes only the part that an update changes. Mostly operand and result are one buffer;
    not so where the fusion also reads the operand elsewhere.
    """
    thunks: list[Thunk] = []
    for number, (root, _) in enumerate(body.roots):
        if not is_update(root):
            continue
        target = cpu.slice(i, (number,) if body.several else ())
        x = root.operands[0]
        while x.opcode in ("bitcast", "reshape"):
            x = x.operands[0]
        if x.opcode != "parameter":
            raise unsupported(i, f"updates {x.name}, which is computed inside of it")
        source = cpu.slice(i.operands[x.attrs.number])
        if source == target:
            continue
        if any(target.overlaps(cpu.slice(o)) for o in i.operands if o.shape.is_array):
            raise unsupported(i, f"writes its update of {x.name} over another operand")
        thunks.append(Copy(f"{i.name}.{number}.operand", source, target))
    return thunks


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
