"""Weights by name: inputs of a program that a C library takes from a file, not from its callers.

Each tensor of the file has a slot in one table of the library, in which loading puts its address;
functions read the table as they read their callers' tables of pointers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from hloom.base.diagnostics import UsageError
from hloom.program.c_interface import Base, CArray, CInterface
from hloom.types.shape import Shape


class Tensor(NamedTuple):
    """A tensor that the file must have."""

    name: str
    """As the model calls it."""
    shape: Shape
    size_bytes: int
    alignment: int


@dataclass
class Tensors:
    """The growing table of a library, which its functions share."""

    items: dict[str, Tensor] = field(default_factory=dict)
    """By name; slots are in this order."""

    def slot(self, name: str, a: CArray) -> int:
        """The place of a tensor; `UsageError` where two functions mean others by one name."""
        known = self.items.setdefault(name, Tensor(name, a.shape, a.size_bytes, a.alignment))
        if known.shape != a.shape:
            raise UsageError(
                f"the weight {name} is {known.shape.text} and {a.shape.text}",
                rule="weights-by-name",
                hint="functions of a library share weights of one name, so of one shape",
            )
        return list(self.items).index(name)


def with_tensors(
    interface: CInterface, names: Mapping[int, str], tensors: Tensors | None
) -> CInterface:
    """The interface without the inputs that are tensors, `names` by their numbers.

    `UsageError` for one that the program changes in place, or that stands in another order in
    memory than files have.
    """
    if not names or tensors is None:
        return interface
    inputs = interface.inputs
    changed = {c.source for c in interface.copies_in}
    for number, name in names.items():
        _check(inputs, number, name, number in changed)
    kept = [k for k in range(len(inputs)) if k not in names]
    numbers = {old: new for new, old in enumerate(kept)}
    slots = {number: tensors.slot(name, inputs[number]) for number, name in names.items()}

    def base(b: Base | None) -> Base | None:
        if b is None or b.what != "input":
            return b
        return Base("tensor", slots[b.at]) if b.at in slots else Base("input", numbers[b.at])

    aliases = [None if o.alias is None else numbers[o.alias] for o in interface.outputs]
    return replace(
        interface,
        inputs=tuple([inputs[k] for k in kept]),
        outputs=tuple([replace(o, alias=a) for o, a in zip(interface.outputs, aliases)]),
        bases=tuple([base(b) for b in interface.bases]),
        copies_in=tuple([c._replace(source=numbers[c.source]) for c in interface.copies_in]),
    )


def _check(inputs: Sequence[CArray], number: int, name: str, is_changed: bool) -> None:
    if not 0 <= number < len(inputs):
        reason = f"is input {number}, and the program has {len(inputs)}"
    elif is_changed:
        reason = "is donated, and a file is only read"
    else:
        shape = inputs[number].shape
        order = None if shape.layout is None else tuple(shape.layout.minor_to_major)
        if order is None or order == tuple(reversed(range(shape.rank))):
            return
        reason = f"is {shape.text}, and files have tensors row by row"
    raise UsageError(f"the weight {name} {reason}", rule="weights-by-name")
