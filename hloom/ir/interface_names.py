"""How a program calls its arguments and results."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.module import Module


def argument_names(module: Module) -> tuple[str, ...]:
    """Of the parameters of the entry computation, in order."""
    parameters = sorted(module.entry.parameters, key=lambda p: p.attrs.number)
    return tuple([p.name for p in parameters])


def result_names(module: Module) -> tuple[str, ...]:
    """Of what the root tuple is made of, or of the root. What stands in it twice has a number
    behind its name."""
    root = module.entry.root
    if not root.shape.is_tuple:
        return (root.name,)
    if root.opcode == "tuple":
        return _distinct([o.name for o in root.operands])
    return tuple([f"{root.name}.{k}" for k in range(len(root.shape.elements))])


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    distinct: list[str] = []
    for name in names:
        number, new = 1, name
        while new in distinct:
            number += 1
            new = f"{name}.{number}"
        distinct.append(new)
    return tuple(distinct)
