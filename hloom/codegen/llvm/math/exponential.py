"""e**x, 2**x, e**x - 1 and the logistic function.

x = n ln 2 + r with |r| <= ln 2 / 2; e**r is a polynomial, and 2**n goes into the exponent in two
steps, so that results below the normal numbers are rounded once.
"""

from __future__ import annotations

import math

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math.parts import (
    clamped,
    fast_two_sum,
    nearest_integer,
    polynomial,
    power_of_two,
    scaled,
    two_sum,
    words,
)
from hloom.codegen.llvm.values import V

LOG2_E = 1 / math.log(2)
# Below the first the result is 0, above the second infinite.
_RANGE = {"f32": (-104.0, 89.0), "f64": (-746.0, 710.0)}
_BINARY_RANGE = {"f32": (-151.0, 128.0), "f64": (-1076.0, 1024.0)}
# Below it e**x - 1 is -1.
_MINUS_ONE = {"f32": -18.0, "f64": -38.0}
# Below it e**x - 1 is x.
_TINY = {"f32": 2.0**-25, "f64": 2.0**-54}


def exponential(e: Emit, x: V) -> V:
    """e**x."""
    low, high = _RANGE[x.kind]
    return scaled(e, *exponential_parts(e, clamped(e, x, low, high)))


def exponential_parts(e: Emit, x: V, rest: V | None = None) -> tuple[V, V]:
    """p in [0.7, 1.42] and the integer n with e**(x + rest) = p * 2**n; x within [-900, 900]."""
    whole, n = nearest_integer(e, x, LOG2_E)
    high, low = words("LN2", x)
    r = e.fma(whole, e.like(x, -low), e.fma(whole, e.like(x, -high), x))
    if rest is not None:
        r = e.fadd(r, rest)
    one = e.like(x, 1.0)
    return e.fma(r, e.fma(r, polynomial(e, "EXP", r), one), one), n


def exp2(e: Emit, x: V) -> V:
    """2**x, exact where x is an integer."""
    low, high = _BINARY_RANGE[x.kind]
    return scaled(e, *exp2_parts(e, clamped(e, x, low, high)))


def exp2_parts(e: Emit, x: V) -> tuple[V, V]:
    """p in [0.7, 1.42] and the integer n with 2**x = p * 2**n; x within [-2000, 2000]."""
    whole, n = nearest_integer(e, x, 1.0)
    rest = e.fsub(x, whole)
    high, low = words("LN2", x)
    r = e.fma(rest, e.like(x, high), e.fmul(rest, e.like(x, low)))
    one = e.like(x, 1.0)
    return e.fma(r, e.fma(r, polynomial(e, "EXP", r), one), one), n


def exponential_minus_one(e: Emit, x: V) -> V:
    """e**x - 1, accurate near 0.

    (2**n - 1) + 2**n r + 2**n (e**r - 1 - r), each sum with what its rounding lost. Half of it is
    computed, because 2**n itself may overflow where the result does not.
    """
    bounded = clamped(e, x, _MINUS_ONE[x.kind], _RANGE[x.kind][1])
    whole, n = nearest_integer(e, bounded, LOG2_E)
    high, low = words("LN2", x)
    near = e.fma(whole, e.like(x, -high), bounded)
    r = e.fma(whole, e.like(x, -low), near)
    rest = e.fma(whole, e.like(x, -low), e.fsub(near, r))
    small = e.fma(e.fmul(r, r), polynomial(e, "EXP", r), rest)
    scale = power_of_two(e, e.sub(n, e.const(n.kind, 1, n.lanes)), x.kind)
    base, lost = two_sum(e, scale, e.like(x, -0.5))
    total, missed = fast_two_sum(e, base, e.fmul(scale, r))
    total = e.fadd(total, e.fadd(missed, e.fma(scale, small, lost)))
    tiny = e.fcmp("olt", e.fabs(x), e.like(x, _TINY[x.kind]))
    return e.select(tiny, x, e.fadd(total, total))


def logistic(e: Emit, x: V) -> V:
    """1 / (1 + e**-x), from e**-|x|, which never overflows.

    The quotient is corrected by what it leaves (where fma shows that), half an ulp less of error.
    """
    small = exponential(e, e.fneg(e.fabs(x)))
    one = e.like(x, 1.0)
    above = e.select(e.fcmp("olt", x, e.like(x, 0.0)), small, one)
    below, lost = fast_two_sum(e, one, small)
    quotient = e.fdiv(above, below)
    if not e.machine.has_fma:
        return quotient
    opposite = e.fneg(quotient)
    left = e.fma(opposite, lost, e.fma(opposite, below, above))
    # 1 / (1 + small) roughly; the correction has few digits.
    return e.fma(left, e.fma(small, e.like(x, -0.5), one), quotient)
