"""scaled-dot as a dot of scaled operands: each scale is repeated over its blocks.

Values of 8 bits or less times a power of two (f8e8m0fnu) are exact in bf16, which hardware
multiplies fastest; any other scaling happens in f32, or f64 where that takes part.
"""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.passes.expand.dot_decomposer import canonical_dots
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.facts import no_dead_code, without
from hloom.passes.pass_ import register
from hloom.types.dtype import BF16, F8E8M0FNU, F32, F64, DType


def _is_unscaled(x: Instruction, scale: Instruction) -> bool:
    """Whether the scale only says that there is none: rank 0, or the bf16 dummy of one element."""
    s = scale.shape
    return not s.dims or (x.shape.dtype is BF16 and s.dtype is BF16 and s.size == 1)


def scaled(b: Expansion, x: Instruction, scale: Instruction, wide: DType) -> Instruction:
    """`x` times its scale in type `wide`."""
    values = b.converted(x, wide)
    if _is_unscaled(x, scale):
        return values
    pairs: list[int] = []
    for whole, size in zip(x.shape.dims, scale.shape.dims, strict=True):
        pairs += [size, whole // size]
    factors = b.converted(scale, wide)
    factors = b.spread(factors, pairs, range(0, len(pairs), 2))
    return b.multiply(values, b.reshaped(factors, x.shape.dims))


@register
class ScaledDotExpander(Expander):
    """Write scaled-dot as converts, products with the repeated scales, and a dot."""

    name = "scaled-dot-expander"
    gives = (without("scaled-dot"),)
    breaks = (canonical_dots, no_dead_code)
    opcodes = frozenset(["scaled-dot"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        if i.shape.is_dynamic or any(o.shape.is_dynamic for o in i.operands):
            return None
        x, y, x_scale, y_scale = i.operands
        wide = F64 if F64 in (x.shape.dtype, y.shape.dtype, i.shape.dtype) else F32
        if all(
            v.shape.dtype.bits <= 8 and v.shape.dtype.is_floating and s.shape.dtype is F8E8M0FNU
            for v, s in ((x, x_scale), (y, y_scale))
        ):
            wide = BF16
        a = i.attrs
        dot = b.emit(
            "dot",
            scaled(b, x, x_scale, wide),
            scaled(b, y, y_scale, wide),
            shape=i.shape,
            lhs_batch_dims=a.lhs_batch_dims,
            rhs_batch_dims=a.rhs_batch_dims,
            lhs_contracting_dims=a.lhs_contracting_dims,
            rhs_contracting_dims=a.rhs_contracting_dims,
            operand_precision=a.operand_precision,
            algorithm=a.algorithm,
        )
        dot.backend_config = i.backend_config
        return dot
