"""Rounding to integers, signs, and what division leaves."""

from __future__ import annotations

import math

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math.parts import (
    format_of,
    mantissa_and_exponent,
    power_of_two,
    scaled,
    two_product,
)
from hloom.codegen.llvm.values import V


def round_half_away(e: Emit, x: V) -> V:
    """The nearest integer, halves away from zero.

    The largest number below 1/2 is added: with it 0.49999997 stays below 1, and halves round up
    in the addition itself.
    """
    below_half = {"f32": 0.5 - 2.0**-25, "f64": 0.5 - 2.0**-54}[x.kind]
    return e.ftrunc(e.fadd(x, e.copysign(e.like(x, below_half), x)))


def round_half_even(e: Emit, x: V) -> V:
    """The nearest integer, halves to even."""
    return e.fround_even(x)


def floor(e: Emit, x: V) -> V:
    """The largest integer not above x."""
    return e.ffloor(x)


def ceil(e: Emit, x: V) -> V:
    """The smallest integer not below x."""
    return e.fceil(x)


def sign(e: Emit, x: V) -> V:
    """-1 or 1; zeros and NaN are their own, and what is taken for zero is a zero of its sign."""
    one = e.copysign(e.like(x, 1.0), x)
    zero = e.like(x, 0.0)
    return e.select(e.fcmp("one", x, zero), one, e.fmul(x, zero))


def is_finite(e: Emit, x: V) -> V:
    """i1: neither infinite nor NaN."""
    return e.fcmp("olt", e.fabs(x), e.like(x, math.inf))


def divide(e: Emit, x: V, y: V) -> V:
    """x / y, correctly rounded."""
    return e.fdiv(x, y)


def remainder(e: Emit, x: V, y: V) -> V:
    """What truncated division leaves, exactly, with the sign of x; NaN for infinite x and y = 0.

    Long division of the mantissas in a loop: each step takes as many binary digits of the
    quotient as a float can hold. One step is enough while |x / y| < 2**21 (2**50 in f64).
    """
    if x.kind == "f32" and not e.machine.has_fma:
        wide = remainder(e, e.fpext(x, "f64"), e.fpext(y, "f64"))
        return e.fptrunc(wide, "f32")
    form = format_of(x)
    a, b = e.fabs(x), e.fabs(y)
    m, m_exponent = mantissa_and_exponent(e, a, 1.0)
    d, d_exponent = mantissa_and_exponent(e, b, 1.0)
    smaller = e.fcmp("olt", a, b)
    zero = e.const(form.word, 0, x.lanes)
    left = e.select(smaller, zero, e.sub(m_exponent, d_exponent))
    left = e.smax(left, zero)
    digits = form.mantissa - 2
    most = e.zext(e.reduce("smax", left), "i64")
    steps = e.add(e.udiv(most, e.const("i64", digits)), e.const("i64", 1))
    m = e.select(e.fcmp("oge", m, d), e.fsub(m, d), m)
    begin, one = e.const("i64", 0), e.const("i64", 1)
    with e.loop(begin, steps, one, [m, left], nonempty=True) as loop:
        rest, togo = loop.carried
        step = e.smin(togo, e.const(form.word, digits, x.lanes))
        loop.next([_divided(e, rest, d, step), e.sub(togo, step)])
    rest = scaled(e, loop.results[0], d_exponent)
    result = e.copysign(e.select(smaller, a, rest), x)
    wrong = e.or_(e.not_(is_finite(e, x)), e.fcmp("ueq", b, e.like(b, 0.0)))
    return e.select(wrong, e.like(x, math.nan), result)


def _divided(e: Emit, rest: V, d: V, step: V) -> V:
    """rest * 2**step modulo d, for rest < d in [1, 2); exact."""
    lifted = e.fmul(rest, power_of_two(e, step, rest.kind))
    quotient = e.ftrunc(e.fdiv(lifted, d))
    if e.machine.has_fma:
        result = e.fma(e.fneg(quotient), d, lifted)
    else:
        product, lost = two_product(e, quotient, d)
        result = e.fsub(e.fsub(lifted, product), lost)
    # The quotient may have been rounded up to the next integer.
    below = e.fcmp("olt", result, e.like(result, 0.0))
    return e.select(below, e.fadd(result, d), result)
