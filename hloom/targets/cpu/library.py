"""A module as the code of a C library: one object, and what its function takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hloom.base.faults import CompilerFaultError, Fault, blame, is_fault
from hloom.codegen.llvm.c_entry import library_text
from hloom.codegen.llvm.other_machine import object_for
from hloom.ir.copy import copy_module
from hloom.ir.verify import verify
from hloom.program.c_interface import LibraryCode, LibraryStep, c_interface
from hloom.program.c_tensors import with_tensors
from hloom.program.thunks.custom_call import Interpreter
from hloom.program.thunks.thunk import Rates, Thunk, walk
from hloom.targets.cpu.function_texts import CODE
from hloom.targets.cpu.recovery import NO_CODE, in_spite

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
    faults: list[Fault] = []
    code = in_spite(module, target, lambda t: _attempt(t, module, asked), faults)
    return replace(code, faults=(*faults, *code.faults))


def _attempt(target: CpuTarget, module: Module, asked: LibraryRequest) -> LibraryCode:
    """The code by what a target has not left out; raises where only the interpreter is left."""
    if NO_CODE in target.left_out:
        raise CompilerFaultError("no code can be made for it", rule="compiler-fault")
    stages = replace(target, scheduler="memory", is_ahead=True, libraries=()).written(
        copy_module(module)
    )
    program = stages.program
    for fault in stages.faults:
        if any(isinstance(t, Interpreter) for t in walk(program.thunks)):
            error = CompilerFaultError(fault.error, rule="compiler-fault")
            blame(error, fault.culprit)
            raise error
    whole = c_interface(program, 8 * target.machine.address_bytes)
    interface = with_tensors(whole, asked.named, asked.tensors)
    text = library_text(asked, program, interface, stages.texts, target.machine)
    faults = [*stages.faults]
    code = _object(target, text, faults)
    operations = {i.name: i for c in stages.module.computations for i in c.instructions}
    steps = _steps(program.thunks, operations, target.device.costs, 0)
    return LibraryCode(program, interface, code, tuple(steps), tuple(faults))


def _object(target: CpuTarget, text: str, faults: list[Fault]) -> bytes:
    """Machine code; where LLVM fails at it, without optimisation."""
    try:
        return object_for(text, target.machine, target.opt_level)
    except Exception as error:
        if target.is_strict or not target.opt_level or not is_fault(error):
            raise
        faults.append(Fault.of(error, CODE, "it was compiled without optimisation"))
        return object_for(text, target.machine, 0)


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
