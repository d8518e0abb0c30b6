"""Everything that is computed element by element: one tile kernel."""

from __future__ import annotations

from hloom.codegen.columns import column_form, column_kernel
from hloom.codegen.crosswise import cross_form, cross_kernel
from hloom.codegen.cumulative import cumulative_dimension, cumulative_kernel
from hloom.codegen.elements import SIMPLE
from hloom.codegen.elements_data import MOVES
from hloom.codegen.loops import loop_kernel
from hloom.codegen.pieces import concatenate_kernel, concatenate_parts
from hloom.codegen.tile import Body
from hloom.ir.instruction import Instruction
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering


@CPU_LOWERS.of(
    *sorted((SIMPLE | MOVES) - {"bitcast", "dynamic-reshape"}),
    "bitcast-convert",
    "map",
    "reduce",
    "reduce-window",
)
def loops(cpu: Lowering, i: Instruction) -> list[Thunk]:
    return body_thunks(cpu, i, Body.of(i))


def body_thunks(cpu: Lowering, i: Instruction, body: Body) -> list[Thunk]:
    """The kernels of a body without a product in it."""
    if len(body.instructions) == 1 and cumulative_dimension(body.roots[0][0]) is not None:
        return cpu.kernel(i, lambda: cumulative_kernel(body, cpu.vector_bytes))
    columns = column_form(body, cpu.vector_bytes)
    if columns is not None:
        return cpu.kernel(i, lambda: column_kernel(body, columns, cpu.vector_bytes))
    cross = cross_form(body, cpu.vector_bytes)
    if cross is not None:
        return cpu.kernel(i, lambda: cross_kernel(body, cross, cpu.vector_bytes))
    parts = concatenate_parts(body)
    if parts is None:
        return cpu.kernel(i, lambda: loop_kernel(body, cpu.vector_bytes))
    thunks: list[Thunk] = []
    for some in parts:
        thunks += cpu.kernel(
            i, lambda some=some: concatenate_kernel(body, some, cpu.vector_bytes), tuple(some)
        )
    return thunks


@CPU_LOWERS.of("copy")
def copy(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """A copy of a tuple copies all arrays in it."""
    x = i.operands[0]
    if i.shape.is_array and x.shape.layout is not i.shape.layout and x.shape.rank > 1:
        return [] if cpu.slice(x) == cpu.slice(i) else loops(cpu, i)
    thunks: list[Thunk] = []
    for index, leaf in i.shape.subshapes():
        if not leaf.is_array:
            continue
        source, target = cpu.slice(x, index), cpu.slice(i, index)
        if source != target:
            thunks.append(Copy(i.name, source, target))
    return thunks
