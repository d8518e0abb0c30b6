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
    distinct: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for name in names:
        new = name
        while new in distinct:
            numbers[name] = numbers.get(name, 1) + 1
            new = f"{name}.{numbers[name]}"
        distinct[new] = None
    return tuple(distinct)
