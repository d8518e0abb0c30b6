"""Sums and products of floats below 32 bits between devices: kept in f32, and rounded once.

Sixteen devices that each add a bf16 would otherwise round sixteen times, and the sum of a thousand
be off by whole units. What two devices exchange stays in the narrow type.
"""

from __future__ import annotations

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.types.dtype import F32


def widened_fold(combiner: Computation) -> str | None:
    """`add` or `multiply` where a combiner of two narrow floats is one of these, in its own type
    or in f32 and rounded after it; else None."""
    root = combiner.root
    of = root.shape
    if not of.is_array or not of.dtype.is_floating or of.dtype.bits >= 32:
        return None
    fold = _without_convert(root)
    if fold.opcode not in ("add", "multiply") or fold.shape.dtype not in (F32, of.dtype):
        return None
    numbers = []
    for x in map(_without_convert, fold.operands):
        if x.opcode != "parameter" or x.shape.dtype is not of.dtype:
            return None
        numbers.append(x.attrs.number)
    return fold.opcode if sorted(numbers) == [0, 1] else None


def _without_convert(i: Instruction) -> Instruction:
    return i.operands[0] if i.opcode == "convert" else i
