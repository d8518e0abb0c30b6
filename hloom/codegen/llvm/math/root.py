"""Roots: square, reciprocal square, cube."""

from __future__ import annotations

import math

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math.parts import format_of, polynomial
from hloom.codegen.llvm.values import V


def sqrt(e: Emit, x: V) -> V:
    """The square root, correctly rounded; NaN below 0, -0 for -0."""
    return e.fsqrt(x)


def rsqrt(e: Emit, x: V) -> V:
    """1 / sqrt x; infinite for zeros (with their sign), NaN below."""
    return e.fdiv(e.like(x, 1.0), e.fsqrt(x))


def cbrt(e: Emit, x: V) -> V:
    """The cube root, of negative numbers too.

    A third of the exponent and mantissa bits as they lie is a root to 3 %; a polynomial in
    t**3 / x takes it to 23 digits, one step of Newton's to all. t has so few digits that its
    square is exact.
    """
    form = format_of(x)
    a = e.fabs(x)
    tiny = e.fcmp("olt", a, e.like(a, form.smallest_normal))
    lifted = e.select(tiny, e.fmul(a, e.like(a, 2.0 ** (3 * _LIFT[x.kind]))), a)
    t = _third_of_bits(e, lifted)
    ratio = e.fmul(e.fmul(t, t), e.fdiv(t, lifted))
    t = e.fmul(t, polynomial(e, "CBRT", ratio))
    t = e.bitcast(e.and_(e.bits(t), e.const(form.word, _HALF_MASKS[x.kind], x.lanes)), x.kind)
    # t + t (x/t**2 - t) / (2t + x/t**2)
    quotient = e.fdiv(lifted, e.fmul(t, t))
    step = e.fdiv(e.fsub(quotient, t), e.fadd(e.fadd(t, t), quotient))
    result = e.fma(t, step, t)
    result = e.select(tiny, e.fmul(result, e.like(a, 2.0 ** -_LIFT[x.kind])), result)
    finite = e.fcmp("olt", a, e.like(a, math.inf))
    usual = e.and_(finite, e.fcmp("ogt", a, e.like(a, 0.0)))
    return e.copysign(e.select(usual, result, e.fadd(a, a)), x)


_LIFT = {"f32": 8, "f64": 18}
_HALF_MASKS = {"f32": ~((1 << 12) - 1), "f64": ~((1 << 30) - 1)}
"""Masks that leave half the digits."""


def _third_of_bits(e: Emit, a: V) -> V:
    """The float whose bits are a third of a's, plus two thirds of the exponent bias."""
    form = format_of(a)
    # The best constant makes the error as large above as below.
    offset = int((form.bias * 2 / 3 - 0.03306235651) * 2**20)
    bits = e.bits(a)
    if a.kind == "f32":
        # The high 16 bits are enough, and a third of them is one product of 32 bits.
        high = e.lshr(bits, e.const("i32", 16, a.lanes))
        third = e.mul(high, e.const("i32", 43691, a.lanes))
        third = e.lshr(third, e.const("i32", 1, a.lanes))
        return e.bitcast(e.add(third, e.const("i32", offset << 3, a.lanes)), "f32")
    high = e.lshr(bits, e.const("i64", 32, a.lanes))
    third = e.mul(high, e.const("i64", 0x55555556, a.lanes))
    third = e.and_(third, e.const("i64", -(1 << 32), a.lanes))
    return e.bitcast(e.add(third, e.const("i64", offset << 32, a.lanes)), "f64")
