"""Inverse circular and hyperbolic functions of complex numbers, over pairs of f64.

Kahan's formulas over two square roots: cuts lie on an axis, and the sign of a zero says on which
side of one a number is.
"""

from __future__ import annotations

import math

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math import angle, logarithm
from hloom.codegen.llvm.math.complex_parts import (
    INFINITY,
    Pair,
    by_smith,
    is_infinite,
    number,
    square_root,
    times_i,
    times_minus_i,
)
from hloom.codegen.llvm.values import V


def _roots(e: Emit, z: Pair) -> tuple[Pair, Pair]:
    """sqrt(1 - z) and sqrt(1 + z)."""
    x, y = z
    one = number(e, x, 1.0)
    return square_root(e, (e.fsub(one, x), e.fneg(y))), square_root(e, (e.fadd(one, x), y))


def _crossed(e: Emit, a: Pair, b: Pair) -> V:
    """The imaginary part of conj(a) b."""
    return e.fsub(e.fmul(a[0], b[1]), e.fmul(a[1], b[0]))


def _drawn_near(e: Emit, z: Pair) -> tuple[Pair, V]:
    """z, or z / 4 where it is so large that 1 beside it is nothing; how much larger its logarithm
    was. What is made of two roots of it does not overflow."""
    far = e.fcmp("ogt", e.fmax_raw(e.fabs(z[0]), e.fabs(z[1])), number(e, z[0], 2.0**500))
    by = e.select(far, number(e, z[0], 0.25), number(e, z[0], 1.0))
    left = e.select(far, number(e, z[0], math.log(4)), number(e, z[0], 0.0))
    return (e.fmul(z[0], by), e.fmul(z[1], by)), left


def _further(e: Emit, value: V, left: V) -> V:
    """Away from 0 by so much."""
    return e.fadd(value, e.copysign(left, value))


def complex_asin(e: Emit, z: Pair) -> Pair:
    """The inverse of the sine."""
    near, left = _drawn_near(e, z)
    minus, plus = _roots(e, near)
    across = e.fsub(e.fmul(minus[0], plus[0]), e.fmul(minus[1], plus[1]))
    x, y = z
    turn = angle.atan2(e, near[0], across)
    infinite = e.or_(is_infinite(e, x), is_infinite(e, y))
    turn = e.select(infinite, angle.atan2(e, x, e.fabs(y)), turn)
    turn = e.select(e.fcmp("oeq", x, number(e, x, 0.0)), x, turn)
    grown = _further(e, logarithm.asinh(e, _crossed(e, minus, plus)), left)
    return turn, e.select(infinite, e.copysign(number(e, x, INFINITY), y), grown)


def complex_acos(e: Emit, z: Pair) -> Pair:
    """The inverse of the cosine."""
    near, left = _drawn_near(e, z)
    minus, plus = _roots(e, near)
    half = angle.atan2(e, minus[0], plus[0])
    turn = _limited_angle(e, z, e.fadd(half, half))
    grown = _further(e, logarithm.asinh(e, _crossed(e, plus, minus)), left)
    infinite = e.or_(is_infinite(e, z[0]), is_infinite(e, z[1]))
    limit = e.fneg(e.copysign(number(e, grown, INFINITY), z[1]))
    return turn, e.select(infinite, limit, grown)


def _limited_angle(e: Emit, z: Pair, turn: V) -> V:
    """`turn`, or what it comes to for an infinite imaginary part, or NaN beside a 0."""
    x, y = z
    turn = e.select(is_infinite(e, y), angle.atan2(e, e.fabs(y), x), turn)
    upright = e.and_(e.fcmp("oeq", x, number(e, x, 0.0)), e.fcmp("uno", y, y))
    return e.select(upright, number(e, x, math.pi / 2), turn)


def complex_asinh(e: Emit, z: Pair) -> Pair:
    """-i asin iz."""
    return times_minus_i(e, complex_asin(e, times_i(e, z)))


def complex_acosh(e: Emit, z: Pair) -> Pair:
    """The inverse of cosh with a real part >= 0."""
    x, y = z
    one = number(e, x, 1.0)
    (a, b), left = _drawn_near(e, z)
    minus = square_root(e, (e.fsub(a, one), b))
    plus = square_root(e, (e.fadd(a, one), b))
    along = e.fadd(e.fmul(minus[0], plus[0]), e.fmul(minus[1], plus[1]))
    half = angle.atan2(e, minus[1], plus[0])
    turn = e.copysign(_limited_angle(e, z, e.fabs(e.fadd(half, half))), y)
    infinite = e.or_(is_infinite(e, x), is_infinite(e, y))
    grown = _further(e, logarithm.asinh(e, along), left)
    return e.select(infinite, number(e, x, INFINITY), grown), turn


def complex_atanh(e: Emit, z: Pair) -> Pair:
    """log1p(4x / ((1 - x)**2 + y**2)) / 4 and the angle of 1 - |z|**2 + 2iy, halved."""
    x, y = z
    one = number(e, x, 1.0)
    a = e.fabs(x)
    # Beyond 2**512 the squares overflow; there it is 1/z, whose real part is nothing.
    far = e.fcmp("ogt", e.fmax_raw(a, e.fabs(y)), number(e, x, 2.0**500))
    away = e.fsub(one, a)
    squares = e.fma(away, away, e.fmul(y, y))
    # Beside a pole the squares vanish: there it is log(2 / |y|) / 2.
    by_pole = e.fcmp("olt", squares, number(e, x, 2.0**-900))
    b = e.select(by_pole, e.fmul(e.fabs(y), number(e, x, 2.0**100)), squares)
    ratio = e.fdiv(e.fmul(a, e.select(by_pole, number(e, x, 2.0), number(e, x, 4.0))), b)
    grown = logarithm.log_plus_one(e, ratio)
    half, quarter = number(e, x, 0.5), number(e, x, 0.25)
    real = e.fmul(e.select(by_pole, half, quarter), grown)
    left = e.select(by_pole, number(e, x, 50 * math.log(2)), number(e, x, 0.0))
    real = e.fadd(real, left)
    inverse = by_smith(e, (one, number(e, x, 0.0)), z)
    real = e.select(far, e.fabs(inverse[0]), real)
    across = e.fsub(e.fmul(away, e.fadd(one, a)), e.fmul(y, y))
    turn = angle.atan2(e, e.fadd(y, y), across)
    half_pi = e.copysign(number(e, x, math.pi / 2), y)
    known = e.and_(far, e.or_(e.fcmp("ord", x, x), is_infinite(e, y)))
    imaginary = e.select(known, half_pi, e.fmul(turn, half))
    zero = number(e, x, 0.0)
    real = e.select(e.or_(is_infinite(e, x), e.fcmp("oeq", x, zero)), zero, real)
    return e.copysign(real, x), imaginary


INVERSE = {
    "acos": complex_acos,
    "acosh": complex_acosh,
    "asin": complex_asin,
    "asinh": complex_asinh,
    "atanh": complex_atanh,
}
"""From HLO opcode to the function over pairs of f64."""
