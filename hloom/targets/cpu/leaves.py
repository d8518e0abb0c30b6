"""What a program takes and gives: the leaves of its parameters and of its result, in order."""

from __future__ import annotations

from typing import Any

from hloom.ir.module import Module
from hloom.plan.buffer_assignment import BufferAssignment
from hloom.program.program import Parameter, Result


def parameters_of(module: Module, assignment: BufferAssignment) -> list[Parameter]:
    """The leaves of the entry's parameters, in order."""
    allocations: dict[tuple[Any, ...], int] = {
        (a.parameter_number, a.shape_index): a.index for a in assignment.of_kind("parameter")
    }
    listed = []
    for p in sorted(module.entry.parameters, key=lambda i: i.attrs.number):
        for index, leaf in p.shape.subshapes():
            if leaf.is_array:
                at = allocations.get((p.attrs.number, index))
                listed.append(Parameter(p.attrs.number, index, leaf, at))
    return listed


def results_of(module: Module, assignment: BufferAssignment) -> list[Result]:
    """The leaves of the entry's result, in order."""
    root = module.entry.root
    results = []
    for index, leaf in root.shape.subshapes():
        if leaf.is_array or leaf.is_token:
            place = assignment.slice(root, index) if leaf.is_array else None
            results.append(Result(index, leaf, place))
    return results
