"""Values without elements, and results of operations on nothing, without computing them.

An array with a size 0 is a constant, whatever made it. What folds over, contracts over, pads,
or updates by nothing is its initial value, zero, the padding value or the old value. A code
generator then meets no loop of no steps.
"""

from __future__ import annotations

from math import prod

import numpy as np

from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.op import opcodes, opcodes_where
from hloom.ir.traits import (
    ASYNC,
    ASYNC_CHAIN,
    CONTROL_FLOW,
    FORWARDS,
    HANDS_OPERANDS,
    HOST,
    PLUMBING,
)
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.literal import Literal

KEPT = opcodes(PLUMBING, ASYNC, HOST, CONTROL_FLOW, HANDS_OPERANDS, FORWARDS, also=("custom-call",))
"""What brings a value from elsewhere, or may have effects: only its readers change."""


def of_nothing(b: Expansion, i: Instruction) -> Instruction | None:
    """The result of an operation one of whose operands has no elements."""
    x = i.operands[0]
    empty = [0 in o.shape.dims for o in i.operands if o.shape.is_array]
    if not any(empty) or not i.shape.is_array:
        return None
    if i.opcode in ("dot", "convolution"):
        return b.full(0, i.shape.dtype, i.shape.dims)
    if i.opcode == "reduce" and empty[0]:
        return b.spread(i.operands[len(i.operands) // 2], i.shape.dims)
    if i.opcode == "reduce-window" and empty[0]:
        return b.spread(i.operands[1], i.shape.dims)
    if i.opcode == "select-and-scatter" and empty[1]:
        return b.spread(i.operands[2], i.shape.dims)
    if i.opcode == "pad" and empty[0]:
        return b.spread(i.operands[1], i.shape.dims)
    if i.opcode == "dynamic-update-slice" and empty[1]:
        return x
    if i.opcode == "scatter" and len(i.operands) == 3 and (empty[1] or empty[2]):
        return x if 0 in i.operands[2].shape.dims else None
    return None


def _is_wrapped(i: Instruction) -> bool:
    """Whether it is a collective that an async-start runs, whose two halves belong together."""
    return i.opcode in COLLECTIVES and any(c.opcode in _CHAIN for c in i.parent.callers)


_CHAIN = opcodes(ASYNC_CHAIN)
MOST_BESIDE_ZERO = 1 << 56


@register
class ZeroSizedHloElimination(Expander):
    """Replace arrays without elements by constants, and operations on nothing by their result."""

    name = "zero-sized-hlo-elimination"
    opcodes = opcodes_where(lambda op: op.name not in KEPT)

    def wants(self, i: Instruction) -> bool:
        return 0 in i.shape.dims or any(0 in o.shape.dims for o in i.operands)

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        of = i.shape
        if not of.is_array or of.is_dynamic or i.has_side_effect or _is_wrapped(i):
            return None
        if i.parent.is_fusion:
            return None  # a fusion reads all that it takes
        if 0 in of.dims:
            if prod(n for n in of.dims if n) > MOST_BESIDE_ZERO:
                return None  # numpy has no such array, without elements or not
            empty = np.zeros(of.dims, of.dtype.numpy)
            return b.emit("constant", literal=Literal.owning(empty, of), shape=of)
        return of_nothing(b, i) if i.operands else None
