"""What makes two bodies the same kernel: structure, shapes and layouts, not names.

Programs repeat themselves (a transformer has the same fusion once per layer): the kernel of a key
is written, lowered and compiled once.
"""

from __future__ import annotations

from collections.abc import Hashable

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction


def instruction_key(i: Instruction) -> Hashable:
    """The structure of an instruction and all it calls; equal keys mean equal kernels."""
    # Which operands are the same value matters: equal values share a parameter.
    numbers: dict[Instruction, int] = {}
    operands = tuple([numbers.setdefault(x, len(numbers)) for x in i.operands])
    shapes = tuple([x.shape.text for x in i.operands])
    return (i.opcode, i.shape.text, _attributes(i), operands, shapes, _called(i))


def computation_key(c: Computation) -> Hashable:
    """The structure of a computation."""
    numbers: dict[Instruction, int] = {}
    rows = []
    for i in c.in_order():
        numbers[i] = len(numbers)
        operands = tuple([numbers[x] for x in i.operands])
        rows.append((i.opcode, i.shape.text, _attributes(i), operands, _called(i)))
    return (numbers[c.root], tuple(rows))


def _called(i: Instruction) -> Hashable:
    return tuple([computation_key(c) for c in i.called])


def _attributes(i: Instruction) -> Hashable:
    if i.opcode == "constant":
        literal = i.attrs.literal
        if literal.shape.is_array and not literal.is_elided:
            return literal.array.tobytes()
        return i
    return i.attrs
