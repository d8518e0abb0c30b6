"""Powers and logarithms to base 2 of complex numbers, over pairs of f64."""

from __future__ import annotations

import math

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math import exponential
from hloom.codegen.llvm.math.complex_functions import (
    complex_log,
    exponential_limits,
    lifted,
)
from hloom.codegen.llvm.math.complex_parts import Pair, number
from hloom.codegen.llvm.math.parts import clamped, scaled, two_product
from hloom.codegen.llvm.math.trigonometric import cosine, sine

LN2_REST = 2.3190468138462996e-17
"""log 2 less the f64 next to it."""
# 2**x below is 0; 2**n of what is above is the most that `scaled` can put in.
_LEAST, _MOST = -1980.0, 2090.0
# From here on it is infinite, even times the smallest sine.
_ENDLESS = 2100.0


def complex_exp2(e: Emit, z: Pair) -> Pair:
    """2**x turned by y ln 2, an angle of two words; the limits are those of e**z."""
    x, y = z
    ln2 = number(e, y, math.log(2))
    turn, rest = two_product(e, y, ln2)
    rest = e.fadd(rest, e.fmul(y, number(e, y, LN2_REST)))  # as the interpreter rounds it
    # Far out the second word is no small angle either.
    outer, inner = (cosine(e, turn), sine(e, turn)), (cosine(e, rest), sine(e, rest))
    level = e.fsub(e.fmul(outer[0], inner[0]), e.fmul(outer[1], inner[1]))
    across = e.fadd(e.fmul(outer[1], inner[0]), e.fmul(outer[0], inner[1]))
    p, n = exponential.exp2_parts(e, clamped(e, x, _LEAST, _MOST))
    p, n = lifted(e, p, n, e.fcmp("ogt", x, number(e, x, _ENDLESS)))
    real, imaginary = scaled(e, e.fmul(p, level), n), scaled(e, e.fmul(p, across), n)
    return exponential_limits(e, z, real, imaginary)


def complex_log2(e: Emit, z: Pair) -> Pair:
    """log z over log 2."""
    real, imaginary = complex_log(e, z)
    scale = number(e, real, exponential.LOG2_E)
    return e.fmul(real, scale), e.fmul(imaginary, scale)


BINARY = {"exp2": complex_exp2, "log2": complex_log2}
"""From HLO opcode to the function over pairs of f64."""
