"""The logarithm of the gamma function, its derivative, and what is made of them.

Near the zeros at 1 and 2 (and that of digamma near 1.46) the argument's distance from the zero is
a factor, so that small results keep all digits. Arguments up to 8.5 (10) are brought there by the
recurrence, with terms of one sign only; above stands Stirling's series, below 0 the reflection.
"""

from __future__ import annotations

from math import log, pi

from hloom.frontends.stablehlo.chlo_coefficients import (
    DIGAMMA,
    DIGAMMA_ROOT,
    LOG_GAMMA_1,
    LOG_GAMMA_2,
)
from hloom.frontends.stablehlo.formula import Term, chebyshev, select
from hloom.types.dtype import F64

STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
"""B(2n) / (2n (2n - 1))."""
DIGAMMA_TAIL = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
"""B(2n) / (2n)."""


def in_powers(terms: tuple[float, ...], z: Term) -> Term:
    """terms[0] + terms[1] z + ..."""
    total = z.constant(terms[-1])
    for c in reversed(terms[:-1]):
        total = total * z + c
    return total


def log_gamma(x: Term) -> Term:
    """log |gamma(x)|; infinite at 0 and the negative integers."""
    size = x.apply("abs")
    positive = _log_gamma_above_0(size)
    # gamma(x) gamma(-x) = -pi / (x sin(pi x))
    whole = size.apply("floor")
    part = size - whole
    part = select(part > 0.5, 1 - part, part)
    reflected = log(pi) - ((part * pi).apply("sine") * size).apply("log") - positive
    # So near 0 that the product above may vanish both sides are -log |x|.
    near_0 = 2.0**-60 if x.dtype is F64 else 2.0**-30
    reflected = select(size < near_0, positive, reflected)
    reflected = select(whole.equals(size) & (size > 0), float("inf"), reflected)
    log_value = select(x < 0, reflected, positive)
    return select(size.equals(float("inf")), size, log_value)


def _log_gamma_above_0(x: Term) -> Term:
    """For x >= 0."""
    is_small, is_low = x < 0.5, x < 1.5
    # Below 0.5 one step up, where the distance from 1 is x itself: nothing is rounded.
    # At 1 it is 0, and not -0.
    d = select(is_small, -x, 1 - x)
    first = d * -chebyshev(LOG_GAMMA_1, (-2 * d).maximum(-1).minimum(1))
    first = select(is_small, first - x.apply("log"), first)
    # Down to between 1.5 and 2.5: every step is exact.
    product, y = x.constant(1), x
    for _ in range(6):
        is_above, lower = y >= 2.5, y - 1
        product = select(is_above, product * lower, product)
        y = select(is_above, lower, y)
    e = y - 2
    second = e * chebyshev(LOG_GAMMA_2, (e + e).maximum(-1).minimum(1)) + product.apply("log")
    large = x.maximum(8.5)
    z = 1 / large
    series = z * in_powers(STIRLING if x.dtype is F64 else STIRLING[:3], z * z)
    half_log = 0.5 * log(2 * pi) - 0.5
    third = (large - 0.5) * (large.apply("log") - 1) + (series + half_log)
    return select(is_low, first, select(x < 8.5, second, third))


def digamma(x: Term) -> Term:
    """The derivative of log_gamma; NaN at the negative integers, minus infinity at 0."""
    size = x.apply("abs")
    positive = _digamma_above_0(size)
    # psi(x) = psi(-x) - 1 / x - pi cot(pi x)
    whole = size.apply("floor")
    part = size - whole
    is_high = part > 0.5
    near = select(is_high, part - 1, part)
    cotangent = pi / (near * pi).apply("tan")
    reflected = positive + 1 / size + cotangent
    reflected = select(whole.equals(size), float("nan"), reflected)
    return select(x <= 0, reflected, positive)


def _digamma_above_0(x: Term) -> Term:
    """For x > 0."""
    is_small = x < 1
    y, total = select(is_small, x + 1, x), select(is_small, -1 / x, x.constant(0))
    for _ in range(8):
        is_above, lower = y >= 2, y - 1
        is_above = is_above & (x < 10)
        total = select(is_above, total + 1 / lower, total)
        y = select(is_above, lower, y)
    high = float(DIGAMMA_ROOT) if x.dtype is F64 else _single(float(DIGAMMA_ROOT))
    low = _difference(DIGAMMA_ROOT, high)
    near = ((y - high) - low) * chebyshev(DIGAMMA, (2 * y - 3).maximum(-1).minimum(1)) + total
    large = x.maximum(10)
    z = 1 / large
    tail = z * z * in_powers(DIGAMMA_TAIL if x.dtype is F64 else DIGAMMA_TAIL[:3], z * z)
    far = large.apply("log") - 0.5 * z - tail
    return select(x < 10, near, far)


def _single(value: float) -> float:
    import numpy as np

    return float(np.float32(value))


def _difference(digits: str, rounded: float) -> float:
    """What rounding left out of a number given by its digits."""
    from fractions import Fraction

    return float(Fraction(digits) - Fraction(rounded))
