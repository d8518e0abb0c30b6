"""Which instructions name the same memory, and whether they name the same part of it."""

from __future__ import annotations

from hloom.analysis.fusible import RENAMES
from hloom.ir.instruction import Instruction


def same_slice(reader: Instruction, update: Instruction) -> bool:
    """Whether a dynamic-slice reads exactly the part that an update writes."""
    return (
        reader.opcode == "dynamic-slice"
        and reader.operands[0] is update.operands[0]
        and reader.operands[1:] == update.operands[2:]
        and reader.attrs.dynamic_slice_sizes == update.operands[1].shape.dims
    )


def buffer_key(x: Instruction) -> object:
    """One key for instructions that name the same memory: views, and elements of one tuple."""
    while x.opcode in RENAMES:
        x = x.operands[0]
    if x.opcode == "get-tuple-element":
        return (x.operands[0], x.attrs.index)
    return x
