"""The algorithm of a dot as converts, plain dots and sums.

Operands are rounded to the type that an algorithm names. The `_x3`, `_x6` and `_x9` forms cut an
operand in parts, each the rounded rest of those before it, and add the dots of parts, small ones
first. What an algorithm computes exactly this way anyway becomes a plain dot. Algorithms that sum
in f16 or bf16 are summed in f32 and rounded once, by the interpreter too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from itertools import product

from hloom.ir.instruction import Instruction
from hloom.passes.expand.expansion import Expander, Expansion, refuse
from hloom.passes.pass_ import register
from hloom.types.casts import preserves_values
from hloom.types.dtype import BF16, F16, F32, F64, U32, DType
from hloom.types.shape import shape

TF32 = (8, 10)
"""Bits of exponent and mantissa: no element type has them, so values stay f32."""

_UPPER_HALF = 0xFFFF0000
"""The bits of an f32 that a bf16 keeps."""


@dataclass(frozen=True)
class Scheme:
    """What an algorithm does: each operand is the sum of `parts` numbers of type `part`; dots of
    part a of lhs and part b of rhs are added where a + b <= `highest`; results round to `sum`."""

    part: DType | tuple[int, int]
    parts: int = 1
    highest: int = 0
    sum: DType = F32


SCHEMES = {
    "dot_any_f8_any_f8_f32": Scheme(F32),  # any f8 is exact in f32
    "dot_any_f8_any_f8_f32_fast_accum": Scheme(F32),
    "dot_f16_f16_f16": Scheme(F16, sum=F16),
    "dot_f16_f16_f32": Scheme(F16),
    "dot_bf16_bf16_bf16": Scheme(BF16, sum=BF16),
    "dot_bf16_bf16_f32": Scheme(BF16),
    "dot_bf16_bf16_f32_x3": Scheme(BF16, 2, 1),
    "dot_bf16_bf16_f32_x6": Scheme(BF16, 3, 2),
    "dot_bf16_bf16_f32_x9": Scheme(BF16, 3, 4),
    "dot_bf16_bf16_fp8x3": Scheme(BF16),  # sums of f8, which bf16 holds
    "dot_bf16_bf16_fp8x4": Scheme(BF16),
    "dot_tf32_tf32_f32": Scheme(TF32),
    "dot_tf32_tf32_f32_x3": Scheme(TF32, 2, 1),
    "dot_f32_f32_f32": Scheme(F32),
    "dot_f64_f64_f64": Scheme(F64, sum=F64),
}


def _is_exact(t: DType, part: DType | tuple[int, int]) -> bool:
    """Whether rounding to `part` changes no value of type `t`."""
    if isinstance(part, DType):
        return preserves_values(t, part)
    return preserves_values(t, BF16) or preserves_values(t, F16)


def _rounded(b: Expansion, x: Instruction, part: DType | tuple[int, int]) -> Instruction:
    """The f32 values of `x` rounded to `part`, in that type where it is one."""
    if isinstance(part, DType):
        return b.converted(x, part)
    return b.emit("reduce-precision", x, exponent_bits=part[0], mantissa_bits=part[1])


def _rounded_below_infinity(
    b: Expansion, x: Instruction, part: DType | tuple[int, int]
) -> Instruction:
    """As `_rounded`, in f32; but finite values that would round to infinity are cut off."""
    near, dims = b.converted(_rounded(b, x, part), F32), x.shape.dims
    lost = b.and_(b.emit("is-finite", x), b.not_(b.emit("is-finite", near)))
    bits = b.emit("bitcast-convert", x, shape=shape(U32, dims))
    cut = b.and_(bits, b.full(_UPPER_HALF, U32, dims))
    return b.select(lost, b.emit("bitcast-convert", cut, shape=shape(F32, dims)), near)


def _parts(b: Expansion, x: Instruction, scheme: Scheme) -> list[Instruction]:
    """The numbers that stand for an operand; just one where that is exact."""
    part = scheme.part
    if _is_exact(x.shape.dtype, part):
        return [b.converted(x, part if isinstance(part, DType) else F32)]
    if part is F64:
        return [b.converted(x, F64)]
    rest = b.converted(x, F32)
    if scheme.parts == 1:
        return [_rounded(b, rest, part)]
    near = _rounded_below_infinity(b, rest, part)
    parts = [b.converted(near, part) if isinstance(part, DType) else near]
    for _ in range(1, scheme.parts):
        rest = b.subtract(rest, near)  # too small to overflow when it is rounded
        parts.append(_rounded(b, rest, part))
        near = b.converted(parts[-1], F32)
    return parts


def _is_plain(i: Instruction, scheme: Scheme) -> bool:
    """Whether the dot computes the same without its algorithm: what is no float is summed as it
    is, and floats below f64 are summed in f32."""
    types = [*(o.shape.dtype for o in i.operands), i.shape.dtype]
    if any(t.is_complex for t in types) or not any(t.is_floating for t in types):
        return True
    if F64 in types or scheme.sum is F64:
        return scheme.sum is F64 and F64 in types
    return all(_is_exact(t, scheme.part) for t in types[:2]) and scheme.sum in (F32, types[2])


@register
class DotAlgorithmRewriter(Expander):
    """Write dots that name an algorithm as dots of rounded operands, or of their parts."""

    name = "dot-algorithm-rewriter"
    opcodes = frozenset(["dot"])

    def wants(self, i: Instruction) -> bool:
        if i.attrs.algorithm is None:
            return False
        return not (i.shape.is_dynamic or any(o.shape.is_dynamic for o in i.operands))

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        scheme = SCHEMES.get(i.attrs.algorithm)
        if scheme is None:
            raise refuse(
                i,
                f"no code is made for the dot algorithm {i.attrs.algorithm}",
                "dot-algorithm",
                f"name one of {', '.join(SCHEMES)}, or none",
            )
        attrs = replace(i.attrs, algorithm=None)
        if _is_plain(i, scheme):
            low_dot = b.like(i, *i.operands)
            low_dot.attrs = attrs
            return low_dot
        of = shape(F64 if scheme.sum is F64 else F32, i.shape.dims)

        def dot(x: Instruction, y: Instruction) -> Instruction:
            product = b.like(i, x, y, shape=of.with_default_layouts())
            product.attrs = attrs
            return product

        sides = [_parts(b, x, scheme) for x in i.operands]
        places = product(*(range(len(parts)) for parts in sides))
        kept_places = [(k, m) for k, m in places if 0 < k + m <= scheme.highest]
        kept_places.sort(
            key=lambda place: -sum(place)
        )  # small ones first: they are not lost one by one
        total = dot(sides[0][0], sides[1][0])
        if kept_places:
            rest = reduce(b.add, [dot(sides[0][k], sides[1][m]) for k, m in kept_places])
            # The rest of an infinity is inf - inf; the leading dot alone is right then.
            broken = b.compared(rest, rest, "NE")
            total = b.add(total, b.select(broken, b.full(0, F32, of.dims), rest))
        return b.converted(b.converted(total, scheme.sum), i.shape.dtype)
