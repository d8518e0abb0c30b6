"""Scatters; a gather is read element by element like any other movement of data."""

from __future__ import annotations

from hloom.codegen.combiner import is_applicable
from hloom.codegen.scatter import scatter_kernel
from hloom.codegen.select_and_scatter import select_and_scatter_kernel
from hloom.ir.instruction import Instruction
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering, unsupported


@CPU_LOWERS.of("scatter")
def scatter(cpu: Lowering, i: Instruction) -> list[Thunk]:
    if not is_applicable(i.called[0]):
        raise unsupported(i, f"combines by {i.called[0].name}, which is no scalar function")
    thunks: list[Thunk] = []
    count = (len(i.operands) - 1) // 2
    for k in range(count):
        source = cpu.slice(i.operands[k])
        target = cpu.slice(i, (k,) if i.shape.is_tuple else ())
        if source != target:
            thunks.append(Copy(f"{i.name}.operand{k}", source, target))
    return thunks + cpu.kernel(i, lambda: scatter_kernel(i, cpu.device), "scatter")


@CPU_LOWERS.of("select-and-scatter")
def select_and_scatter(cpu: Lowering, i: Instruction) -> list[Thunk]:
    for c in i.called:
        if not is_applicable(c):
            raise unsupported(i, f"calls {c.name}, which is no scalar function")
    return cpu.kernel(i, lambda: select_and_scatter_kernel(i, cpu.device), "select-and-scatter")
