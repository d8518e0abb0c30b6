"""Hyperbolic functions: an odd polynomial near 0, exponentials elsewhere."""

from __future__ import annotations

import math

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math.exponential import LOG2_E, exponential_parts
from hloom.codegen.llvm.math.parts import clamped, nearest_power, polynomial, scaled
from hloom.codegen.llvm.math.tabled import has_tables, tabled
from hloom.codegen.llvm.values import V

# tanh is 1 above, as rounded.
_ONE = {"f32": 10.0, "f64": 20.0}
_LARGEST = {"f32": 91.0, "f64": 712.0}


def tanh(e: Emit, x: V) -> V:
    """The hyperbolic tangent: 1 - 2 / (1 + e**2a), a = |x|, above 5/8.

    That exponential is never too small nor too large, so that its power of two is added to the
    exponent of what it multiplies; one word of ln 2 is enough, as it counts less the larger a is.
    """
    if x.kind == "f32" and has_tables(e.machine):
        return tabled(e, "TANH", x)
    a = e.fabs(x)
    z = e.fmul(x, x)
    small = e.fma(e.fmul(z, x), polynomial(e, "TANH", z), x)
    bounded = e.fmin_raw(e.like(x, _ONE[x.kind]), a)
    twice = e.fadd(bounded, bounded)
    whole, exponent = nearest_power(e, twice, LOG2_E)
    r = e.fma(whole, e.like(x, -math.log(2)), twice)
    one = e.like(x, 1.0)
    p = e.fma(r, e.fma(r, polynomial(e, "EXP", r), one), one)
    grown = e.bitcast(e.add(e.bits(p), exponent), x.kind)
    large = e.fsub(one, e.fdiv(e.like(x, 2.0), e.fadd(one, grown)))
    # What is no number is near 0: its bits may be any after a sum of exponents.
    near = e.fcmp("ult", a, e.like(x, 0.625))
    return e.copysign(e.select(near, small, large), x)


def sinh(e: Emit, x: V) -> V:
    """The hyperbolic sine: h - 1 / 4h, h = e**|x| / 2, from 1 on."""
    a = e.fabs(x)
    z = e.fmul(x, x)
    small = e.fma(e.fmul(z, x), polynomial(e, "SINH", z), x)
    half = _half_exponential(e, a)
    large = e.fsub(half, e.fdiv(e.like(x, 0.25), half))
    near = e.fcmp("olt", a, e.like(x, 1.0))
    return e.select(near, small, e.copysign(large, x))


def cosh(e: Emit, x: V) -> V:
    """The hyperbolic cosine: h + 1 / 4h, h = e**|x| / 2."""
    half = _half_exponential(e, e.fabs(x))
    return e.fadd(half, e.fdiv(e.like(x, 0.25), half))


def _half_exponential(e: Emit, a: V) -> V:
    """e**a / 2 for a >= 0, finite where its half is not yet too large."""
    p, n = exponential_parts(e, clamped(e, a, 0.0, _LARGEST[a.kind]))
    return scaled(e, p, e.sub(n, e.const(n.kind, 1, n.lanes)))
