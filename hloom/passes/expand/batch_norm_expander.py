"""Batch normalisation as sums and elementwise operations (Ioffe and Szegedy, 2015).

The variance is the mean of squared distances from the mean, in two passes: one pass over squares
loses all digits when the mean is large. Types below 32 bits are computed in f32.
"""

from __future__ import annotations

import numpy as np

from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.facts import without
from hloom.passes.pass_ import register
from hloom.types.dtype import F32, F64, DType


class _Features:
    """An array seen as its features; vectors have one element for each."""

    def __init__(self, b: Expansion, i: Instruction) -> None:
        self.b = b
        self.x = i.operands[0]
        dims = self.x.shape.dims
        self.feature = i.attrs.feature_index
        self.rest = tuple(d for d in range(len(dims)) if d != self.feature)
        self.count = self.x.shape.size // dims[self.feature] if dims[self.feature] else 0
        self.dtype: DType = F64 if self.x.shape.dtype is F64 else F32
        # The attribute is a 32-bit float whatever the type of the operand.
        self.epsilon = float(np.float32(i.attrs.epsilon))

    def wide(self, x: Instruction) -> Instruction:
        return self.b.converted(x, self.dtype)

    def spread(self, vector: Instruction) -> Instruction:
        return self.b.spread(vector, self.x.shape.dims, (self.feature,))

    def total(self, x: Instruction) -> Instruction:
        return self.b.total(x, self.rest)

    def mean(self, x: Instruction) -> Instruction:
        return self.b.divide(self.total(x), self.filled(self.count))

    def filled(self, value: float) -> Instruction:
        return self.b.full(value, self.dtype, (self.x.shape.dims[self.feature],))

    def inverse(self, variance: Instruction) -> Instruction:
        """1 / sqrt(variance + epsilon)."""
        return self.b.rsqrt(self.b.add(variance, self.filled(self.epsilon)))

    def normalised(
        self, x: Instruction, mean: Instruction, factor: Instruction, offset: Instruction
    ) -> Instruction:
        b = self.b
        centred = b.subtract(x, self.spread(mean))
        return b.add(b.multiply(centred, self.spread(factor)), self.spread(offset))


@register
class BatchNormExpander(Expander):
    """Write batch-norm-training, -inference and -grad as reductions and elementwise operations."""

    name = "batch-norm-expander"
    gives = (without("batch-norm-training", "batch-norm-inference", "batch-norm-grad"),)
    opcodes = frozenset(["batch-norm-training", "batch-norm-inference", "batch-norm-grad"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        if any(o.shape.is_dynamic for o in i.operands):
            return None
        f = _Features(b, i)
        x, *vectors = (f.wide(o) for o in i.operands)
        if i.opcode == "batch-norm-inference":
            scale, offset, mean, variance = vectors
            factor = b.multiply(scale, f.inverse(variance))
            return b.converted(f.normalised(x, mean, factor, offset), i.shape.dtype)
        if i.opcode == "batch-norm-training":
            parts = self.training(f, x, *vectors)
        else:
            parts = self.gradients(f, x, *vectors)
        types = (s.dtype for s in i.shape.elements)
        return b.tuple(*(b.converted(p, t) for p, t in zip(parts, types, strict=True)))

    def training(
        self, f: _Features, x: Instruction, scale: Instruction, offset: Instruction
    ) -> tuple[Instruction, ...]:
        """(x normalised, its mean, its variance)."""
        b, mean = f.b, f.mean(x)
        centred = b.subtract(x, f.spread(mean))
        variance = f.mean(b.multiply(centred, centred))
        factor = b.multiply(scale, f.inverse(variance))
        return f.normalised(x, mean, factor, offset), mean, variance

    def gradients(
        self,
        f: _Features,
        x: Instruction,
        scale: Instruction,
        mean: Instruction,
        variance: Instruction,
        grad: Instruction,
    ) -> tuple[Instruction, ...]:
        """The gradients of x, of the scale and of the offset."""
        b, inverse = f.b, f.inverse(variance)
        centred = b.subtract(x, f.spread(mean))
        grad_offset = f.total(grad)
        grad_scale = b.multiply(f.total(b.multiply(centred, grad)), inverse)
        count = f.filled(max(1, f.count))
        shift = b.divide(grad_offset, count)
        slope = b.divide(b.multiply(grad_scale, inverse), count)
        rest = b.subtract(grad, f.spread(shift))
        rest = b.subtract(rest, b.multiply(centred, f.spread(slope)))
        factor = f.spread(b.multiply(scale, inverse))
        return b.multiply(factor, rest), grad_scale, grad_offset
