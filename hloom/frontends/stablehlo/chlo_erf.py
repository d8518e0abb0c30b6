"""The complementary error function and the inverse of the error function."""

from __future__ import annotations

from hloom.frontends.stablehlo.chlo_coefficients import (
    ERF_INV_CENTRE,
    ERF_INV_CENTRE_SINGLE,
    ERF_INV_SIDE,
    ERF_INV_SIDE_SINGLE,
    ERF_INV_TAIL,
    ERFC_SINGLE,
    SCALED_ERFC,
)
from hloom.frontends.stablehlo.formula import Term, chebyshev, powers, select
from hloom.types.dtype import F64, S32

_HIGH_BITS = -(1 << 12)
"""Of a float of single precision what keeps 12 digits, whose squares are exact."""


def erfc(x: Term) -> Term:
    """1 - erf(x), with all digits where that is small."""
    return _erfc_double(x) if x.dtype is F64 else _erfc_single(x)


def _erfc_single(x: Term) -> Term:
    """One formula for all sizes, 1 at 0: 1 + 2 a times it is e ** (-a a) of little more than 1."""
    a = x.apply("abs").minimum(11)
    double = a + a
    part = 1 / (a + 3)
    scaled = double * part * powers(ERFC_SINGLE, (a - 3) * part) + 1
    scaled = scaled / (double + 1)
    complement = _with_exponential(scaled, a)
    return select(x < 0, 2 - complement, complement)


def _with_exponential(scaled: Term, a: Term) -> Term:
    """The first times e ** (-a a)."""
    if a.maker.shape.dtype.bits <= 16:  # its last digits are not asked for
        return (-(a * a)).apply("exponential") * scaled
    # e ** (-a a) from the exact square of the upper digits; the others are worth a tenth at most.
    high = (a.bits(S32) & _HIGH_BITS).bits(a.dtype)
    rest = (a - high) * (a + high)
    lost = rest * powers((1, -1 / 2, 1 / 6, -1 / 24), rest)
    return (-(high * high)).apply("exponential") * (scaled - scaled * lost)


def _erfc_double(x: Term) -> Term:
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
    high = x.apply("reduce-precision", exponent_bits=11, mantissa_bits=24)
    high = high.minimum(40)
    x = x.minimum(40)
    rest = (x - high) * (x + high)
    return (-(high * high)).apply("exponential") * (-rest).apply("exponential")


def erf_inv(x: Term) -> Term:
    """The y with erf(y) = x; NaN outside of [-1, 1]."""
    factor = _inverse_double(x) if x.dtype is F64 else _inverse_single(x)
    size = x.apply("abs")
    inverse = select(size.equals(1), x * float("inf"), x * factor)
    return select(size <= 1, inverse, float("nan"))


def _inverse_single(x: Term) -> Term:
    """erf_inv(x) / x, by one polynomial with the coefficients of one of two intervals."""
    # Near 1 1 - x is exact; near 0 only the distance of w from 0 counts.
    w = -((1 - x) * (1 + x)).apply("log")
    near = w < 5.0625
    t = select(near, w * (2 / 5.0625) - 1, (w.apply("sqrt") - 3.125) * (1 / 0.875))
    pairs = zip(ERF_INV_CENTRE_SINGLE, ERF_INV_SIDE_SINGLE, strict=True)
    return powers([select(near, w.constant(a), b) for a, b in pairs], t)


def _inverse_double(x: Term) -> Term:
    """erf_inv(x) / x."""
    # log(1 - x x), in which nothing cancels near 1; near 0 only its distance from 0 counts.
    w = -(x.apply("log-plus-one") + (-x).apply("log-plus-one"))
    root = w.maximum(0).apply("sqrt")
    centre = chebyshev(ERF_INV_CENTRE, ((w - 3.125) / 3.125).maximum(-1).minimum(1))
    side = chebyshev(ERF_INV_SIDE, ((root - 3.25) / 0.75).maximum(-1).minimum(1))
    tail = chebyshev(ERF_INV_TAIL, ((root - 5.125) / 1.125).maximum(-1).minimum(1))
    return select(w < 6.25, centre, select(w < 16, side, tail))
