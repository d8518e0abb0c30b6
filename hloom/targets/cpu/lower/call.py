"""Fusions, and what needs no code at all."""

from __future__ import annotations

from hloom.codegen.tile import Body, is_update
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.program.thunks.call import Call
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering


@CPU_LOWERS.of("fusion")
def fusion(cpu: Lowering, i: Instruction) -> list[Thunk]:
    moved = moved_operands(cpu, i)
    return moved + cpu.body(i, Body.of(i))


def moved_operands(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """Copies of operands to the results that update them, where those do not stand there already.

    A kernel writes only the part that an update changes. Mostly operand and result are one buffer;
    not so where the fusion also reads the operand elsewhere. What is updated may also be computed
    in the fusion itself: then the root becomes a copy of the update, which is written as a whole.
    """
    thunks: list[Thunk] = []
    body = Body.of(i)
    for number, (root, _) in enumerate(body.roots):
        if not is_update(root):
            continue
        target = cpu.slice(i, (number,) if body.several else ())
        x = root.operands[0]
        while x.opcode in ("bitcast", "reshape"):
            x = x.operands[0]
        if x.opcode != "parameter":
            write_whole(i, number)
            continue
        source = cpu.slice(i.operands[x.attrs.number])
        if source == target:
            continue
        if any(target.overlaps(cpu.slice(o)) for o in i.operands if o.shape.is_array):
            write_whole(i, number)
            continue
        thunks.append(Copy(f"{i.name}.{number}.operand", source, target))
    return thunks


def write_whole(i: Instruction, number: int) -> None:
    """Make the root of that number one that is computed at every index, not an update."""
    c = i.called[0]
    root = c.root
    update = root.operands[number] if root.opcode == "tuple" else root
    made = c.append("copy", OPS["copy"].empty, (update,), update.shape)
    if root.opcode != "tuple":
        c.root = made
        return
    parts = root.operands
    root.set_operands(tuple([made if k == number else x for k, x in enumerate(parts)]))
    c.reorder(c.in_order())


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
