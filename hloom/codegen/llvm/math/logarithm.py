"""log x, log2 x, log(1 + x), and the inverse hyperbolic functions, which are logarithms.

x = 2**k (1 + f) with 1 + f in [sqrt 1/2, sqrt 2). log(1 + f) is f plus a small part: a polynomial
in f32, and in f64 a shorter one in (f / (2 + f))**2, where the division is cheaper than the ten
terms it saves. k ln 2 + f is summed with its rounding error, so that neither cancels the other.
"""

from __future__ import annotations

import math

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math.parts import (
    fast_two_sum,
    integer_as_float,
    mantissa_and_exponent,
    polynomial,
    power_of_two,
    two_product,
    two_sum,
    words,
)
from hloom.codegen.llvm.values import V

ROOT_HALF = math.sqrt(0.5)


def log(e: Emit, x: V) -> V:
    """log x; -infinity at zeros, NaN below."""
    m, k = mantissa_and_exponent(e, x, ROOT_HALF)
    result = _sum(e, e.fsub(m, e.like(x, 1.0)), integer_as_float(e, k, x.kind))
    return _with_limits(e, result, x, 0.0)


def log2(e: Emit, x: V) -> V:
    """The logarithm to base 2, exact where x is a power of 2.

    k + (f + small part) log2 e; f log2 e is kept in two words, since k may cancel half of it.
    """
    m, k = mantissa_and_exponent(e, x, ROOT_HALF)
    f = e.fsub(m, e.like(x, 1.0))
    high, low = words("LOG2_E", x)
    product, rest = two_product(e, f, e.like(x, high))
    rest = e.fma(f, e.like(x, low), rest)
    total, lost = fast_two_sum(e, integer_as_float(e, k, x.kind), product)
    small, missed = _small_words(e, f)
    rest = e.fma(missed, e.like(x, high), e.fadd(rest, lost))
    rest = e.fma(small, e.like(x, high), rest)
    return _with_limits(e, e.fadd(total, rest), x, 0.0)


def log_plus_one(e: Emit, x: V, rest: V | None = None) -> V:
    """log(1 + x + rest), accurate near 0: what 1 + x rounds away is kept."""
    one = e.like(x, 1.0)
    total, lost = two_sum(e, one, x)
    if rest is not None:
        lost = e.fadd(lost, rest)
    m, k = mantissa_and_exponent(e, total, ROOT_HALF, denormals=False)
    # Far out nothing is lost that counts, and 2**-k would not be normal.
    lost = e.select(e.fcmp("olt", x, e.like(x, 2.0**60)), lost, e.like(x, 0.0))
    bounded = e.smin(k, e.const(k.kind, 64, k.lanes))
    down = power_of_two(e, e.neg(bounded), x.kind)
    f, small = fast_two_sum(e, e.fsub(m, one), e.fmul(lost, down))
    small = e.fma(e.fneg(small), f, small)
    result = _sum(e, f, integer_as_float(e, k, x.kind), small)
    return _with_limits(e, e.copysign(result, x), x, -1.0)


def _small_part(e: Emit, f: V) -> V:
    """log(1 + f) - f."""
    square = e.fmul(f, f)
    if f.kind == "f32":
        return e.fmul(square, e.fma(f, polynomial(e, "LOG", f), e.like(f, -0.5)))
    s = e.fdiv(f, e.fadd(e.like(f, 2.0), f))
    z = e.fmul(s, s)
    half = e.fmul(square, e.like(f, 0.5))
    return e.fsub(e.fmul(s, e.fma(z, polynomial(e, "ATANH", z), half)), half)


def _small_words(e: Emit, f: V) -> tuple[V, V]:
    """log(1 + f) - f, and what f * f rounded away of it, which counts in f32 alone."""
    if f.kind == "f64":
        return _small_part(e, f), e.like(f, 0.0)
    square, lost = two_product(e, f, f)
    half = e.like(f, -0.5)
    cubic = e.fmul(e.fmul(square, f), polynomial(e, "LOG", f))
    return e.fma(square, half, cubic), e.fmul(lost, half)


def _sum(e: Emit, f: V, k: V, rest: V | None = None) -> V:
    """k ln 2 + log(1 + f) + rest."""
    high, low = words("LN2", f)
    total, lost = fast_two_sum(e, e.fmul(k, e.like(f, high)), f)
    small = e.fma(k, e.like(f, low), _small_part(e, f))
    small = e.fadd(small, lost if rest is None else e.fadd(lost, rest))
    return e.fadd(total, small)


def _with_limits(e: Emit, result: V, x: V, pole: float) -> V:
    """The result where x is above the pole, -infinity at it, NaN below, infinity at infinity."""
    at_pole = e.select(e.fcmp("oeq", x, e.like(x, pole)), e.like(x, -math.inf), e.like(x, math.nan))
    result = e.select(e.fcmp("ogt", x, e.like(x, pole)), result, at_pole)
    return e.select(e.fcmp("oeq", x, e.like(x, math.inf)), x, result)


def asinh(e: Emit, x: V) -> V:
    """The inverse of sinh: log(1 + a + a*a / (1 + sqrt(1 + a*a))), a = |x|; log 2a far out."""
    one = e.like(x, 1.0)
    a = e.fabs(x)
    far = e.fcmp("ogt", a, e.like(x, _FAR[x.kind]))
    b = e.select(far, one, a)
    square = e.fmul(b, b)
    root = e.fadd(one, e.fsqrt(e.fma(b, b, one)))
    argument = fast_two_sum(e, b, e.fdiv(square, root))
    return e.copysign(_log_of_far(e, argument, a, far), x)


def acosh(e: Emit, x: V) -> V:
    """The inverse of cosh above 1: log(1 + t + sqrt(t*t + 2t)), t = x - 1; NaN below 1."""
    far = e.fcmp("ogt", x, e.like(x, _FAR[x.kind]))
    t = e.fsub(x, e.like(x, 1.0))
    b = e.select(far, e.like(x, 1.0), t)
    root = e.fsqrt(e.fma(b, b, e.fadd(b, b)))
    result = _log_of_far(e, fast_two_sum(e, root, t), x, far)
    return e.select(e.fcmp("olt", x, e.like(x, 1.0)), e.like(x, math.nan), result)


_FAR = {"f32": 2.0**28, "f64": 2.0**57}
"""From here on 1 + a + sqrt(1 + a*a) is 2 (1 + a) as rounded."""


def _log_of_far(e: Emit, argument: tuple[V, V], x: V, far: V) -> V:
    """log(1 + the sum of two words); where far log 2x, x being so large that 1 + x is x."""
    rest = e.select(far, e.like(x, 0.0), argument[1])
    result = log_plus_one(e, e.select(far, x, argument[0]), rest)
    return e.select(far, e.fadd(result, e.like(result, math.log(2))), result)


def atanh(e: Emit, x: V) -> V:
    """The inverse of tanh: log(1 + 2a + 2a*a / (1 - a)) / 2, a = |x|; infinite at 1, NaN beyond."""
    a = e.fabs(x)
    double = e.fadd(a, a)
    argument = two_sum(e, double, e.fdiv(e.fmul(double, a), e.fsub(e.like(x, 1.0), a)))
    usual = e.fcmp("olt", a, e.like(a, 0.5))
    result = log_plus_one(e, argument[0], e.select(usual, argument[1], e.like(a, 0.0)))
    result = e.select(e.fcmp("ogt", a, e.like(a, 1.0)), e.like(a, math.nan), result)
    return e.copysign(e.fmul(e.like(x, 0.5), result), x)
