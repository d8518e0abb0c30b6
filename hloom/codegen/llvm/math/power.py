"""x**y: e**(y log |x|), the logarithm in two words, so that y may magnify it.

log |x| = k ln 2 + 2 atanh(s), s = (m - 1) / (m + 1) in two words; of the series the first two
terms are summed in two words, the others count 2**-11 of the whole.
"""

from __future__ import annotations

import math

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math.exponential import exponential_parts
from hloom.codegen.llvm.math.logarithm import ROOT_HALF
from hloom.codegen.llvm.math.parts import (
    clamped,
    fast_two_sum,
    format_of,
    integer_as_float,
    mantissa_and_exponent,
    polynomial,
    scaled,
    two_product,
    two_sum,
    words,
)
from hloom.codegen.llvm.values import V

# Beyond it e**x is 0 or infinite.
_EXTREME = {"f32": 110.0, "f64": 760.0}
# Every larger float is an even integer.
_ALL_EVEN = {"f32": 2.0**24, "f64": 2.0**53}


# Exponents of which the power is written with a root: 0.15 to 0.29 of the time with AVX-512, 0.09
# to 0.18 with AVX2.
WITH_ROOT = (0.5, -0.5, 1.5, -1.5)


def power(e: Emit, x: V, y: V) -> V:
    """x**y with C99's special cases: 1 for x**0 and 1**y whatever the other is."""
    if y.value in WITH_ROOT:
        return _with_root(e, x, y.value)
    zero, one = e.like(x, 0.0), e.like(x, 1.0)
    a = e.fabs(x)
    high, low = log_in_two_words(e, a)
    product, lost = two_product(e, high, y)
    rest = e.fma(low, y, lost)
    # Where the product is extreme, or y so large that its halves are, the rest is nothing.
    extreme = e.fcmp("uge", e.fabs(product), e.like(x, _EXTREME[x.kind]))
    rest = e.select(extreme, zero, rest)
    limit = _EXTREME[x.kind]
    p, n = exponential_parts(e, clamped(e, product, -limit, limit), rest)
    result = scaled(e, p, n)
    falls = e.fcmp("olt", y, zero)
    empty = e.fcmp("oeq", a, zero)
    endless = e.fcmp("oeq", a, e.like(x, math.inf))
    vanishes = e.xor(empty, falls)
    limit_value = e.select(vanishes, zero, e.like(x, math.inf))
    result = e.select(e.or_(empty, endless), limit_value, result)
    result = _signed(e, result, x, y)
    result = e.select(e.fcmp("uno", x, y), e.fadd(x, y), result)
    always = e.or_(e.fcmp("oeq", y, zero), e.fcmp("oeq", x, one))
    # (-1) ** infinity is 1 too.
    unit = e.and_(e.fcmp("oeq", a, one), e.fcmp("oeq", e.fabs(y), e.like(y, math.inf)))
    return e.select(e.or_(always, unit), one, result)


def _with_root(e: Emit, x: V, y: float) -> V:
    """x**y by a square root; -0 has the power of 0, and -infinity, which has no root, that of
    infinity."""
    root, one = e.fsqrt(x), e.like(x, 1.0)
    if abs(y) == 0.5:
        result = e.fabs(root if y > 0 else e.fdiv(one, root))
    else:
        result = e.fmul(x, root) if y > 0 else e.fdiv(e.fdiv(one, x), root)
    at_end = e.fcmp("oeq", x, e.like(x, -math.inf))
    return e.select(at_end, e.like(x, math.inf if y > 0 else 0.0), result)


def _signed(e: Emit, power_: V, x: V, y: V) -> V:
    """For x below 0: minus the result for odd y, NaN for y with a fraction (x = 0 has none)."""
    form = format_of(x)
    y_size = e.fabs(y)
    half = e.fmul(y, e.like(y, 0.5))
    whole = e.fcmp("oeq", e.ftrunc(y), y)
    even = e.or_(
        e.fcmp("oeq", e.ftrunc(half), half), e.fcmp("oge", y_size, e.like(y, _ALL_EVEN[y.kind]))
    )
    odd = e.and_(whole, e.not_(even))
    sign = e.and_(e.bits(x), e.const(form.word, -(1 << (form.width - 1)), x.lanes))
    turned = e.bitcast(e.xor(e.bits(power_), sign), x.kind)
    power_ = e.select(odd, turned, power_)
    # -infinity and -0 to a fraction are as infinity and 0.
    below = e.and_(e.fcmp("olt", x, e.like(x, 0.0)), e.fcmp("ogt", x, e.like(x, -math.inf)))
    return e.select(e.and_(below, e.not_(whole)), e.like(x, math.nan), power_)


def log_in_two_words(e: Emit, a: V) -> tuple[V, V]:
    """log a, for finite a > 0, with about 11 more digits than one word has."""
    m, k = mantissa_and_exponent(e, a, ROOT_HALF)
    one = e.like(a, 1.0)
    f = e.fsub(m, one)
    whole = e.fadd(m, one)
    rounded_off = e.fsub(f, e.fsub(whole, e.like(a, 2.0)))
    s = e.fdiv(f, whole)
    product, lost = two_product(e, s, whole)
    remainder = e.fsub(e.fsub(f, product), lost)
    remainder = e.fsub(remainder, e.fmul(s, rounded_off))
    s_low = e.fdiv(remainder, whole)
    z, z_low = two_product(e, s, s)
    z_low = e.fma(e.fadd(s, s), s_low, z_low)
    # 2/3 + z * tail, in two words; then times z and s.
    third = words("TWO_THIRDS", a)
    tail = e.fmul(z, polynomial(e, "ATANH_TAIL", z))
    c, c_low = fast_two_sum(e, e.like(a, third[0]), tail)
    c_low = e.fadd(c_low, e.like(a, third[1]))
    u, u_low = two_product(e, z, c)
    u_low = e.fadd(u_low, e.fma(z, c_low, e.fmul(z_low, c)))
    v, v_low = two_product(e, s, u)
    v_low = e.fadd(v_low, e.fma(s, u_low, e.fmul(s_low, u)))
    high, low = fast_two_sum(e, e.fadd(s, s), v)
    low = e.fadd(low, e.fadd(e.fadd(s_low, s_low), v_low))
    number = integer_as_float(e, k, a.kind)
    first, second = words("LN2", a)
    base, base_low = two_sum(e, e.fmul(number, e.like(a, first)), high)
    low = e.fadd(low, e.fadd(base_low, e.fmul(number, e.like(a, second))))
    return fast_two_sum(e, base, low)
