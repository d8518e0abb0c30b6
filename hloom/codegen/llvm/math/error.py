"""The error function.

Below 1 an odd polynomial; above, 1 - e**-Q(|x| - 1), where Q is minus the logarithm of what is
left to 1. The higher |x|, the less Q has to be right.
"""

from __future__ import annotations

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math.exponential import exponential_parts
from hloom.codegen.llvm.math.parts import clamped, polynomial, power_of_two
from hloom.codegen.llvm.values import V

# Above it the result is 1, as rounded.
_ONE = {"f32": 4.0, "f64": 6.0}


def erf(e: Emit, x: V) -> V:
    """2 / sqrt(pi) times the integral of e**-(t*t) from 0 to x."""
    a = e.fabs(x)
    one = e.like(x, 1.0)
    z = e.fmul(x, x)
    small = e.fma(x, polynomial(e, "ERF", z), x)
    t = e.fsub(clamped(e, a, 1.0, _ONE[x.kind]), one)
    left, n = exponential_parts(e, e.fneg(polynomial(e, "ERFC", t)))
    large = e.fsub(one, e.fmul(left, power_of_two(e, n, x.kind)))
    near = e.fcmp("olt", a, one)
    return e.select(near, small, e.copysign(large, x))
