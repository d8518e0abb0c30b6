"""Fusions, and what needs no code at all."""

from __future__ import annotations

from dataclasses import replace

from hloom.codegen.tile import Body, is_update
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.program.thunks.call import Call
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lower.hosted import alone
from hloom.targets.cpu.lower.views import view_of
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering


@CPU_LOWERS.of("fusion")
def fusion(cpu: Lowering, i: Instruction) -> list[Thunk]:
    moved, whole = updates(cpu, i)
    if not whole:
        view = view_of(cpu, i)
        if view is None:
            return moved + cpu.body(i, Body.of(i))
        body = replace(Body.of(view.fusion), name=i.name)
        return moved + cpu.body(i, body, view.fusion, view.place)
    computed = written_whole(i, whole)
    return moved + cpu.body(i, replace(Body.of(computed), name=i.name), computed)


def updates(cpu: Lowering, i: Instruction) -> tuple[list[Thunk], list[int]]:
    """Copies of operands to the results that update them, where those do not stand there already,
    and the numbers of the roots that must be computed at every index instead.

    A kernel writes only the part that an update changes. Mostly operand and result are one buffer;
    not so where the fusion also reads the operand elsewhere. What is updated may also be computed
    in the fusion itself: then, and where the result stands in what another operand has, the update
    is written as a whole.
    """
    copies: list[Thunk] = []
    whole: list[int] = []
    body = Body.of(i)
    for number, (root, _) in enumerate(body.roots):
        if not is_update(root):
            continue
        target = cpu.slice(i, (number,) if body.several else ())
        x = root.operands[0]
        while x.opcode in ("bitcast", "reshape"):
            x = x.operands[0]
        if x.opcode != "parameter":
            whole.append(number)
            continue
        source = cpu.slice(i.operands[x.attrs.number])
        if source == target:
            continue
        if any(target.overlaps(cpu.slice(o)) for o in i.operands if o.shape.is_array):
            whole.append(number)
            continue
        copies.append(Copy(f"{i.name}.{number}.operand", source, target))
    return copies, whole


def written_whole(i: Instruction, numbers: list[int]) -> Instruction:
    """A fusion like this one, in a module of its own, whose roots of these numbers are computed at
    every index: copies of updates, not updates."""
    fusion = alone(i).entry.root
    c = fusion.called[0]
    root = c.root
    is_single = root.opcode != "tuple"
    parts = [root] if is_single else list(root.operands)
    for number in numbers:
        update = parts[number]
        parts[number] = c.append("copy", OPS["copy"].empty, (update,), update.shape)
    if is_single:
        c.root = parts[0]
    else:
        root.set_operands(tuple(parts))
        c.sort()
    return fusion


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
