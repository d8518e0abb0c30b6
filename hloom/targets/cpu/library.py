"""A module as the code of a C library: one object, and what its function takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hloom.codegen.llvm.c_entry import library_text
from hloom.codegen.llvm.other_machine import object_for
from hloom.ir.copy import copy_module
from hloom.ir.verify import verify
from hloom.program.c_interface import LibraryCode, LibraryStep, c_interface
from hloom.program.thunks.thunk import Rates, Thunk

if TYPE_CHECKING:
    from hloom.ir.instruction import Instruction
    from hloom.ir.module import Module
    from hloom.program.c_weights import LibraryRequest
    from hloom.targets.cpu.target import CpuTarget

MOST_NAMED = 6
"""Operations of a step that are named."""


def library_code(target: CpuTarget, module: Module, asked: LibraryRequest) -> LibraryCode:
    """The code for a module: kernels and steps as they are for this process, one after another on
    the thread that calls."""
    target.check(module)
    verify(module)
    stages = replace(target, scheduler="memory").written(copy_module(module))
    program = stages.program
    interface = c_interface(program, 8 * target.machine.address_bytes)
    text = library_text(asked, program, interface, stages.texts, target.machine)
    code = object_for(text, target.machine, target.opt_level)
    operations = {i.name: i for c in stages.module.computations for i in c.instructions}
    steps = _steps(program.thunks, operations, target.device.costs, 0)
    return LibraryCode(program, interface, code, tuple(steps))


def _steps(
    thunks: Iterable[Thunk], operations: Mapping[str, Instruction], rates: Rates, depth: int
) -> Iterator[LibraryStep]:
    """What a function does, in order, the steps of loops and choices behind them."""
    for t in thunks:
        what = _operations(operations.get(t.name))
        yield LibraryStep(depth, t.name, t.kind, what, t.elapsed_ns(rates, 1))
        for part in t.nested():
            yield from _steps(part.thunks, operations, rates, depth + 1)


def _operations(i: Instruction | None) -> str:
    """`add, tanh -> f32[4]`: what a step computes; empty where it has no instruction."""
    if i is None:
        return ""
    inside = [i]
    if i.opcode == "fusion":
        (body,) = i.called
        inside = [x for x in body.instructions if x.opcode not in ("parameter", "tuple")]
    counts = Counter([x.opcode for x in inside])
    words = [name if n == 1 else f"{n} {name}" for name, n in counts.most_common(MOST_NAMED)]
    if len(counts) > MOST_NAMED:
        words.append("...")
    return f"{', '.join(words)} -> {i.shape.text_without_layout}"
