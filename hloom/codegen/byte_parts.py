"""Elements below a byte: which dimension of a value has several of them in each unit of memory.

Two weights of four bits lie in a byte. A vector of neighbours would have to spread the bytes and
then move every other lane; the even ones and the odd ones are each a vector of bytes, moved by one
distance. So whoever reads such a value may take every second element, once from the first on and
once from the second.
"""

from __future__ import annotations

from hloom.codegen.elements import is_simple
from hloom.ir.instruction import Instruction


def byte_parts(x: Instruction, d: int, leaves: set[Instruction]) -> int:
    """How many neighbours along dimension `d` of a value are read from one unit of memory; 1 where
    each is read by itself, or where that is not seen."""
    seen: set[tuple[Instruction, int]] = set()
    pending = [(x, d)]
    while pending:
        x, d = pending.pop()
        if x in leaves or (x, d) in seen or not x.shape.is_array:
            continue
        seen.add((x, d))
        is_last = d == x.shape.rank - 1
        if is_simple(x):
            pending += [(y, d) for y in x.operands if y.shape.rank == x.shape.rank]
        elif x.opcode == "transpose":
            pending.append((x.operands[0], x.attrs.dimensions[d]))
        elif x.opcode in ("reshape", "bitcast") and is_last:
            pending.append((x.operands[0], x.operands[0].shape.rank - 1))
        elif is_last and splits_units(x):
            return x.shape.dims[-1]
    return 1


def splits_units(x: Instruction) -> bool:
    """Whether a conversion of bits has several elements, below a byte, for each of its operand."""
    is_finer = x.opcode == "bitcast-convert" and x.shape.rank > x.operands[0].shape.rank
    return is_finer and x.shape.dtype.is_sub_byte
