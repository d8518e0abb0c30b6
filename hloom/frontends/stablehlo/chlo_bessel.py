"""The modified Bessel function of the first kind and order 1, times e ** -|x|."""

from __future__ import annotations

from hloom.frontends.stablehlo.chlo_coefficients import (
    BESSEL_FAR,
    BESSEL_MIDDLE,
    BESSEL_NEAR,
)
from hloom.frontends.stablehlo.formula import Term, chebyshev, select


def bessel_i1e(x: Term) -> Term:
    size = x.apply("abs")
    near = x * chebyshev(BESSEL_NEAR, (size / 1.5 - 1).minimum(1))
    middle = x * chebyshev(BESSEL_MIDDLE, ((size - 5.5) / 2.5).maximum(-1).minimum(1))
    far = size.maximum(8)
    sign = x.apply("sign")
    scaled = sign * chebyshev(BESSEL_FAR, 16 / far - 1) / far.apply("sqrt")
    return select(size <= 3, near, select(size <= 8, middle, scaled))
