"""Inverse trigonometric functions.

An angle is K pi/4 + t, with K small and t from an odd polynomial; pi/4 in two words, of which the
first has room for an exact product with K.
"""

from __future__ import annotations

import math

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math.parts import (
    fast_two_sum,
    is_nan,
    is_negative,
    polynomial,
    two_product,
    words,
)
from hloom.codegen.llvm.values import V


def atan2(e: Emit, y: V, x: V) -> V:
    """The angle of the point (x, y), in (-pi, pi]; signs of zeros count as C99 has it.

    With a <= b the sizes of both, a/b is used up to 1/2, then (a - b) / (a + b), the tangent of
    an angle pi/4 less.
    """

    def number(value: float) -> V:
        return e.like(x, value)

    zero, one = number(0.0), number(1.0)
    x_size, y_size = e.fabs(x), e.fabs(y)
    steep = e.fcmp("ogt", y_size, x_size)
    a, b = e.select(steep, x_size, y_size), e.select(steep, y_size, x_size)
    infinite = e.fcmp("oeq", b, number(math.inf))
    both = e.fcmp("oeq", a, number(math.inf))
    a = e.select(infinite, e.select(both, one, zero), a)
    b = e.select(e.or_(infinite, e.fcmp("oeq", b, zero)), one, b)
    upper = e.fcmp("ogt", a, e.fmul(b, number(0.5)))
    # a + b may overflow only where both are large, and there half of each is exact.
    scale = e.select(e.fcmp("ogt", b, one), number(0.5), one)
    high, wide = e.fmul(a, scale), e.fmul(b, scale)
    numerator = e.select(upper, e.fsub(high, wide), a)
    q = e.fdiv(numerator, e.select(upper, e.fadd(high, wide), b))
    z = e.fmul(q, q)
    t = e.fma(e.fmul(z, q), polynomial(e, "ATAN", z), q)
    k = e.select(upper, one, zero)
    k, t = e.select(steep, e.fsub(number(2.0), k), k), e.select(steep, e.fneg(t), t)
    left = is_negative(e, x)
    k, t = e.select(left, e.fsub(number(4.0), k), k), e.select(left, e.fneg(t), t)
    first, second = words("QUARTER_PI", x)
    angle = e.fma(k, number(first), e.fma(k, number(second), t))
    result = e.copysign(angle, y)
    return e.select(e.fcmp("uno", x, y), e.fadd(x, y), result)


def atan(e: Emit, x: V) -> V:
    """The angle in [-pi/2, pi/2] whose tangent is x."""
    return atan2(e, x, e.like(x, 1.0))


def asin(e: Emit, x: V) -> V:
    """The angle in [-pi/2, pi/2] whose sine is x; NaN beyond 1.

    Above 1/2 it is pi/2 - 2 asin(s), s = sqrt((1 - |x|) / 2), where s counts with what its
    rounding lost.
    """
    a = e.fabs(x)
    half_pi, half_pi_rest = words("HALF_PI", x)[:2]
    large, s, small = _arc_parts(e, a)
    total, lost = fast_two_sum(e, e.like(x, half_pi), e.fmul(s, e.like(s, -2.0)))
    rest = e.fma(small, e.like(s, -2.0), e.fadd(lost, e.like(s, half_pi_rest)))
    result = e.select(large, e.fadd(total, rest), e.fadd(a, small))
    return _or_nan(e, e.copysign(result, x), x)


def acos(e: Emit, x: V) -> V:
    """The angle in [0, pi] whose cosine is x; NaN beyond 1."""
    a = e.fabs(x)
    half_pi, half_pi_rest = words("HALF_PI", x)[:2]
    large, s, small = _arc_parts(e, a)
    negative = e.fcmp("olt", x, e.like(x, 0.0))
    # 2 (s + small), or pi minus that.
    double, twice = e.fadd(s, s), e.fadd(small, small)
    total, lost = fast_two_sum(e, e.like(x, 2 * half_pi), e.fneg(double))
    left = e.fadd(total, e.fadd(lost, e.fsub(e.like(x, 2 * half_pi_rest), twice)))
    outer = e.select(negative, left, e.fadd(double, twice))
    # pi/2 - x - small x / a
    signed = e.select(negative, e.fneg(small), small)
    total, lost = fast_two_sum(e, e.like(x, half_pi), e.fneg(x))
    inner = e.fadd(total, e.fadd(lost, e.fsub(e.like(x, half_pi_rest), signed)))
    return _or_nan(e, e.select(large, outer, inner), x)


def _arc_parts(e: Emit, a: V) -> tuple[V, V, V]:
    """Whether a > 1/2; s with asin(s + ..) = s + small, where s is a, or sqrt((1 - a) / 2)."""
    half = e.like(a, 0.5)
    large = e.fcmp("ogt", a, half)
    far = e.fmul(e.fsub(e.like(a, 1.0), a), half)
    z = e.select(large, far, e.fmul(a, a))
    root = e.fsqrt(far)
    square, lost = two_product(e, root, root)
    missing = e.fsub(e.fsub(far, square), lost)
    positive = e.fcmp("ogt", root, e.like(a, 0.0))
    divisor = e.select(positive, e.fadd(root, root), e.like(a, 1.0))
    correction = e.select(large, e.fdiv(missing, divisor), e.like(a, 0.0))
    s = e.select(large, root, a)
    small = e.fma(e.fmul(z, s), polynomial(e, "ASIN", z), correction)
    return large, s, small


def _or_nan(e: Emit, angle: V, x: V) -> V:
    beyond = e.or_(e.fcmp("ogt", e.fabs(x), e.like(x, 1.0)), is_nan(e, x))
    return e.select(beyond, e.like(x, math.nan), angle)
