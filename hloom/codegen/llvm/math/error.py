"""The error function: 1 - e**-Q(|x|), where Q is minus the logarithm of what is left to 1.

Q is |x| and a part of it, so that near 0 hardly more is rounded than that part. e**-Q is a power
of two times 1 + p, and 1 minus it one fma: where the power is 1, the result is -p, with all digits.
"""

from __future__ import annotations

import math

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math.exponential import LOG2_E
from hloom.codegen.llvm.math.parts import nearest_power, polynomial
from hloom.codegen.llvm.math.tabled import has_tables, tabled
from hloom.codegen.llvm.values import V

# Above it the result is 1, as rounded.
_ONE = {"f32": 3.95, "f64": 6.0}


def erf(e: Emit, x: V) -> V:
    """2 / sqrt(pi) times the integral of e**-(t*t) from 0 to x."""
    if x.kind == "f32" and has_tables(e.machine):
        return tabled(e, "ERF", x)
    one = e.like(x, 1.0)
    a = e.fmin_raw(e.like(x, _ONE[x.kind]), e.fabs(x))
    part = e.fmul(a, polynomial(e, "ERF", a))
    whole, exponent = nearest_power(e, e.fadd(a, part), -LOG2_E)
    # Further digits of ln 2 would count only where e**-Q is small.
    rest = e.fma(whole, e.like(x, -math.log(2)), e.fneg(a))
    r = e.fsub(rest, part)
    square = e.fmul(r, r)
    p = e.fadd(rest, e.fma(square, polynomial(e, "EXP", r), e.fneg(part)))
    power = e.bitcast(e.add(e.bits(one), exponent), x.kind)
    return e.copysign(e.fma(e.fneg(power), p, e.fsub(one, power)), x)
