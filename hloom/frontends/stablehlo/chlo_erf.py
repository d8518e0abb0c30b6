"""The complementary error function and the inverse of the error function."""

from __future__ import annotations

from hloom.frontends.stablehlo.chlo_coefficients import (
    ERF_INV_CENTRE,
    ERF_INV_SIDE,
    ERF_INV_TAIL,
    SCALED_ERFC,
)
from hloom.frontends.stablehlo.formula import Term, chebyshev, select
from hloom.types.dtype import F64


def erfc(x: Term) -> Term:
    """1 - erf(x), with all digits where that is small."""
    size = x.apply("abs")
    far = size.maximum(0.5)
    t = (far - 3.5) / (far + 2.5)
    scaled = chebyshev(SCALED_ERFC, select(far.equals(float("inf")), 1, t)) / (1 + 2 * far)
    complement = scaled * _exp_minus_square(far)
    complement = select(x < 0, 2 - complement, complement)
    return select(size < 0.5, 1 - x.apply("erf"), complement)


def _exp_minus_square(x: Term) -> Term:
    """e ** (-x x). The square of the upper half of the digits is exact, so that its rounding
    error, which the exponential would multiply by x x, is none."""
    is_double = x.dtype is F64
    high = x.apply(
        "reduce-precision",
        exponent_bits=11 if is_double else 8,
        mantissa_bits=24 if is_double else 10,
    )
    high = high.minimum(40)
    x = x.minimum(40)
    rest = (x - high) * (x + high)
    return (-(high * high)).apply("exponential") * (-rest).apply("exponential")


def erf_inv(x: Term) -> Term:
    """The y with erf(y) = x; NaN outside of [-1, 1]."""
    # log(1 - x x), in which nothing cancels near 1; near 0 only its distance from 0 counts.
    w = -(x.apply("log-plus-one") + (-x).apply("log-plus-one"))
    root = w.maximum(0).apply("sqrt")
    centre = chebyshev(ERF_INV_CENTRE, ((w - 3.125) / 3.125).maximum(-1).minimum(1))
    side = chebyshev(ERF_INV_SIDE, ((root - 3.25) / 0.75).maximum(-1).minimum(1))
    tail = chebyshev(ERF_INV_TAIL, ((root - 5.125) / 1.125).maximum(-1).minimum(1))
    factor = select(w < 6.25, centre, select(w < 16, side, tail))
    size = x.apply("abs")
    inverse = select(size.equals(1), x * float("inf"), x * factor)
    return select(size <= 1, inverse, float("nan"))
