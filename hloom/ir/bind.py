"""Parameters that become constants: a model's weights, which callers then need not bring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hloom.base.diagnostics import UsageError
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.types.literal import Literal
from hloom.types.program_shape import ProgramShape


def bound(module: Module, values: Mapping[int, Literal]) -> Module:
    """A copy of a module whose parameters of these numbers are constants, the others numbered anew.

    What was to be returned in a bound parameter's memory gets memory of its own. `UsageError` where
    a value has not the type and sizes of its parameter.
    """
    module = copy_module(module)
    entry = module.entry
    old = list(entry.parameters)
    if wrong := sorted(set(values) - {p.attrs.number for p in old}):
        raise UsageError(f"{module.name} has no parameter {wrong[0]}", rule="argument-count")
    kept = [p for p in old if p.attrs.number not in values]
    number_of = {p.attrs.number: k for k, p in enumerate(kept)}
    order = entry.in_order() if module.schedule is None else None
    for p in old:
        literal = values.get(p.attrs.number)
        if literal is None:
            continue
        shape = p.shape
        if literal.shape.dims != shape.dims or literal.shape.dtype is not shape.dtype:
            raise UsageError(
                f"parameter {p.attrs.number} is {shape.text_without_layout}, the value for it "
                f"{literal.shape.text_without_layout}",
                rule="argument-type",
            )
        constant = entry.append("constant", OPS["constant"].attrs(literal=literal), (), shape)
        for before in (order, None if module.schedule is None else module.schedule.get(entry)):
            if before is not None:
                before[before.index(p)] = constant
        entry.replace(p, constant)
        for after in list(p.control_successors):
            after.add_control_predecessor(constant)
        entry.erase(p)
    for p in kept:
        p.attrs = replace(p.attrs, number=number_of[p.attrs.number])
    if order is not None:
        entry.reorder(order)
    _say_of_the_rest(module, len(old), number_of)
    return module


def _say_of_the_rest(module: Module, count: int, number_of: Mapping[int, int]) -> None:
    """What a module says of its parameters, said of those that are left."""
    if (said := module.entry_layout) is not None:
        shapes = tuple([said.parameters[k] for k in number_of])
        names = tuple([said.parameter_names[k] for k in number_of if said.parameter_names])
        module.entry_layout = ProgramShape(shapes, names, said.result)
    if (aliases := module.input_output_alias) is not None:
        entries = [
            replace(e, parameter_number=number_of[e.parameter_number])
            for e in aliases.entries
            if e.parameter_number in number_of
        ]
        module.input_output_alias = replace(aliases, entries=tuple(entries)) if entries else None
    if (donors := module.buffer_donors) is not None:
        places = [(number_of[n], index) for n, index in donors.entries if n in number_of]
        module.buffer_donors = replace(donors, entries=tuple(places)) if places else None
    for name in (
        "allow_spmd_sharding_propagation_to_parameters",
        "spmd_parameters_shardings",
    ):
        told = getattr(module, name)
        if len(told) == count:
            setattr(module, name, tuple([told[k] for k in number_of]))
