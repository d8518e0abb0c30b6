"""Factorisations and solves of narrow floats in f32: the routines know f32, f64, c64 and c128.

The result is rounded once, so it is at least as exact as steps in the narrow type.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.dtype import F32
from hloom.types.shape import shape


@register
class LinalgUpcaster(Expander):
    """Convert operands of cholesky and triangular-solve below 32 bits to f32, and results back."""

    name = "linalg-upcaster"
    opcodes = frozenset(["cholesky", "triangular-solve"])

    def wants(self, i: Instruction) -> bool:
        return i.shape.dtype.is_floating and i.shape.dtype.bits < 32

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        wide = [b.converted(x, F32) for x in i.operands]
        wide_result = b.like(i, *wide, shape=shape(F32, i.shape.dims).with_default_layouts())
        return b.converted(wide_result, i.shape.dtype)
