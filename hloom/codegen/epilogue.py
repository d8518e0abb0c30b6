"""What follows a product in its kernel: where an element of the product goes in the result.

A product's kernel has one tile at a time and writes what becomes of it. That works where every way
from the product to the result leads each element to the same place: through elementwise
operations, reshapes and transposes. Two ways that differ (`x + transpose(x)`) need other tiles too.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.codegen.affine import Affine
from hloom.codegen.elements import Elements, Index, is_simple
from hloom.codegen.elements_data import reshaped
from hloom.codegen.tile import Body
from hloom.ir.instruction import Instruction

Sizes = tuple[int, ...]
# A step from the index of an operand to that of a result: the sizes before and after a reshape, or
# a transpose's order of dimensions and None.
Step = tuple[Sizes, Sizes | None]


def index_steps(body: Body, anchor: Instruction) -> list[Step] | None:
    """How the index of the root follows from that of the anchor; None where no single way does."""
    ways: dict[Instruction, list[Step]] = {anchor: []}
    leaves = {x for x, _ in body.leaves}
    for i in body.instructions:
        if i is anchor or i in leaves:
            continue
        operand_steps = [ways[x] for x in i.operands if x in ways]
        if not operand_steps:
            continue
        if any(other != operand_steps[0] for other in operand_steps):
            return None
        steps = operand_steps[0]
        if i.opcode in ("bitcast", "reshape"):
            x = i.operands[0]
            if x.shape.dims != i.shape.dims:
                steps = [*steps, (x.shape.dims, i.shape.dims)]
        elif i.opcode == "transpose":
            steps = [*steps, (tuple(i.attrs.dimensions), None)]
        elif not is_simple(i) and i.opcode != "copy":
            return None
        ways[i] = steps
    [(root, _)] = body.roots
    return ways.get(root)


def followed(e: Elements, steps: Sequence[Step], index: Index) -> Index:
    """The index of the root for an index of the anchor."""
    at: tuple[Affine, ...] = tuple(index)
    for first, after in steps:
        at = tuple([at[d] for d in first]) if after is None else reshaped(e, at, first, after)
    return at
