"""Values brought into the layout of the parameter that stood for them, where a call goes away.

Layouts of a caller and of what it calls may differ: a program means the same elements. Only what
is said of memory (a bitcast, a custom call with layouts) reads them otherwise, so that a body that
is written in place of its call reads a copy.
"""

from __future__ import annotations

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.types.shape import Shape


def differs_in_layout(a: Shape, b: Shape) -> bool:
    """Whether elements lie in another order, where both shapes say in which."""
    if a is b:
        return False
    if a.is_tuple and len(a.elements) == len(b.elements):
        return any(differs_in_layout(x, y) for x, y in zip(a.elements, b.elements))
    if a.layout is None or b.layout is None or len(a.dims) < 2:
        return False
    orders = [
        [d for d in layout.minor_to_major if a.dims[d] != 1] for layout in (a.layout, b.layout)
    ]
    return orders[0] != orders[1]


def laid_out(
    computation: Computation, x: Instruction, shape: Shape, added: list[Instruction]
) -> Instruction:
    """A value of a computation in the layouts of a shape; `added` gets what that takes."""
    if not differs_in_layout(x.shape, shape):
        return x
    if not x.shape.is_tuple:
        moved = computation.add("copy", x, shape=x.shape.with_layout(shape.layout))
    else:
        parts = []
        for k, e in enumerate(shape.elements):
            part = computation.add("get-tuple-element", x, index=k)
            added.append(part)
            parts.append(laid_out(computation, part, e, added))
        moved = computation.add("tuple", *parts)
    added.append(moved)
    return moved
