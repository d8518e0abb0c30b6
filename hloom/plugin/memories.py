"""Kinds of memory that a program's arguments and results are asked to be in, and layouts.

All of them are the host's memory here, so a kind is a name that arrays carry, and moving an array
from one to another is a copy.
"""

from __future__ import annotations

from copy import copy
from typing import Any

from hloom.api import MEMORY_KINDS, HloError, LaunchSpec, Module

ATTRIBUTE = "mhlo.memory_kind"


def memory_kinds(code: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Numbers of the kinds of arguments and of results; nothing where no kind is spoken of."""
    if b"memory_kind" not in code:
        return (), ()
    from hloom.plugin.sharded import parsed

    with parsed(code) as module:
        main = next(
            op
            for op in module.body.operations
            if op.operation.name == "func.func" and str(op.attributes["sym_name"]) == '"main"'
        )
        kind = main.type if hasattr(main, "type") else main.function_type.value
        counts = {"arg_attrs": len(kind.inputs), "res_attrs": len(kind.results)}
        arguments, results = (
            tuple([_number(attribute) for attribute in main.attributes[name]])
            if name in main.attributes
            else (0,) * count
            for name, count in counts.items()
        )
    return arguments, results


def _number(attributes: Any) -> int:
    """The number of the kind that a dictionary of attributes names; 0 is the device's memory."""
    if ATTRIBUTE not in attributes:
        return 0
    kind = str(attributes[ATTRIBUTE]).strip('"')
    if kind not in MEMORY_KINDS:
        raise HloError(
            f"there is no kind of memory {kind!r}",
            rule="memory-kind",
            hint=f"kinds: {', '.join(MEMORY_KINDS)}",
        )
    return MEMORY_KINDS.index(kind)


def refuse_tiles(module: Module) -> None:
    """Arrays lie in any order of their dimensions, and without tiles."""
    shape = module.entry_layout
    leaves = (
        [leaf for s in (*shape.parameters, shape.result) for leaf in s.leaves()] if shape else []
    )
    for leaf in leaves:
        if leaf.is_array and leaf.layout is not None and leaf.layout.tiles:
            raise HloError(
                f"{module.name} has an argument or result in tiles: {leaf}",
                rule="unimplemented",
                hint="ask for an order of the dimensions alone, as in Layout((1, 0))",
            )


def in_memories(module: Module, launch_spec: LaunchSpec) -> Module:
    """The module whose entry says in which memory spaces arguments and results are."""
    old = module.entry_layout
    if old is None or not any(
        s.memory_kind for s in (*launch_spec.arguments, *launch_spec.results)
    ):
        return module
    placed = copy(module)
    placed.entry_layout = launch_spec.placed(old)
    return placed
