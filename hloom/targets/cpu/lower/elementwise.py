"""Everything that is computed element by element: one tile kernel."""

from __future__ import annotations

from dataclasses import replace

from hloom.codegen.elements import SIMPLE
from hloom.codegen.elements_data import MOVED
from hloom.codegen.tile import Body
from hloom.ir.instruction import Instruction
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lower.views import view_of_slice
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering


@CPU_LOWERS.of(
    *sorted((SIMPLE | MOVED) - {"bitcast", "dynamic-reshape", "slice"}),
    "bitcast-convert",
    "map",
    "reduce",
    "reduce-window",
)
def loops(cpu: Lowering, i: Instruction) -> list[Thunk]:
    return cpu.body(i, Body.of(i))


@CPU_LOWERS.of("slice")
def slice_(cpu: Lowering, i: Instruction) -> list[Thunk]:
    view = view_of_slice(cpu, i)
    if view is None:
        return loops(cpu, i)
    return cpu.body(i, replace(Body.of(view.fusion), name=i.name), view.fusion, view.place)


@CPU_LOWERS.of("copy")
def copy(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """A copy of a tuple copies all arrays in it. A library has kernels for those of arrays, so that
    nothing else has to be linked to it (0.96 to 1.04 of the time, 64 bytes to 64 MB)."""
    x = i.operands[0]
    is_turned = x.shape.layout is not i.shape.layout and x.shape.rank > 1
    if i.shape.is_array and (is_turned or cpu.is_ahead):
        return [] if cpu.slice(x) == cpu.slice(i) else loops(cpu, i)
    thunks: list[Thunk] = []
    for index, leaf in i.shape.subshapes():
        if not leaf.is_array:
            continue
        source, target = cpu.slice(x, index), cpu.slice(i, index)
        if source != target:
            thunks.append(Copy(i.name, source, target))
    return thunks
