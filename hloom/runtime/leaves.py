"""The arrays of a call: of nested arguments, and which of their buffers the program may have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.program.program import Program
from hloom.runtime.arguments import donated_numbers
from hloom.runtime.buffer import Buffer
from hloom.runtime.nested import flatten
from hloom.types.literal import Literal
from hloom.types.shape import Shape


def leaves_of(program: Program, shapes: Sequence[Shape], arguments: Sequence[Any]) -> list[Any]:
    """The arrays of nested arguments, checked against the shapes of the program's parameters."""
    if not any(isinstance(a, tuple | list | Literal) for a in arguments) and (
        len(arguments) == len(program.parameters)
    ):
        return list(arguments)
    if len(arguments) != len(shapes):
        raise UsageError(
            f"{program.name} takes {len(shapes)} arguments, {len(arguments)} were given",
            rule="argument-count",
        )
    leaves: list[Any] = []
    for number, (shape, argument) in enumerate(zip(shapes, arguments)):
        flatten(shape, argument, f"argument {number}", leaves)
    return leaves


def donatable(
    program: Program, leaves: Sequence[Any], donate: bool | int | Iterable[int]
) -> tuple[list[Any], list[Buffer]]:
    """The leaves, those copied that must not be donated; and buffers to delete afterwards."""
    chosen = donated_numbers(program.name, donate, len(program.argument_shapes))
    own_leaves, gone = [], []
    for p, leaf in zip(program.parameters, leaves):
        if isinstance(leaf, Buffer):
            if p.number in chosen:
                gone.append(leaf)
            else:
                leaf = np.asarray(leaf)
        own_leaves.append(leaf)
    return [*own_leaves, *leaves[len(own_leaves) :]], gone
