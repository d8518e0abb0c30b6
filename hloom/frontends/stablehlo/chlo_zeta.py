"""Hurwitz's zeta function, by the sum of its first terms and Euler and Maclaurin's correction.

polygamma(n, x) = (-1) ** (n + 1) n! zeta(n + 1, x).
"""

from __future__ import annotations

from math import factorial

from hloom.frontends.stablehlo.chlo_gamma import digamma, log_gamma
from hloom.frontends.stablehlo.formula import Term, select
from hloom.types.dtype import F64

CORRECTIONS = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
    854513 / 138,
    -236364091 / 2730,
)
"""The even Bernoulli numbers."""
LARGEST_EXACT = 18
"""Factorials up to this are products, above by log_gamma."""


def zeta(x: Term, q: Term) -> Term:
    """The sum of (q + k) ** -x over k = 0, 1, ...

    NaN for x < 1; infinite for x = 1 and where a term is 1 / 0 with an even power, as XLA has it.
    """
    terms = 12 if x.dtype is F64 else 8
    corrections = CORRECTIONS if x.dtype is F64 else CORRECTIONS[:6]
    total, a = q.power(-x), q
    for _ in range(terms):
        a = a + 1
        total = total + a.power(-x)
    last = a.power(-x)
    total = total + last * a / (x - 1) - 0.5 * last
    # From so large an x on `last` is 0, and its factors would be infinite.
    step = x.minimum(1e12 if x.dtype is F64 else 1e3)
    power, factor = last / a, step
    inverse = 1 / (a * a)
    for k, bernoulli in enumerate(corrections):
        total = total + power * factor * (bernoulli / factorial(2 * k + 2))
        power = power * inverse
        factor = factor * ((step + 1) * (step + 2))
        step = step + 2
    return _special(x, q, total)


def _special(x: Term, q: Term, value: Term) -> Term:
    """What is not a sum."""
    inf, nan = float("inf"), float("nan")
    is_whole_q = q.equals(q.apply("floor"))
    is_even = x.remainder(2).equals(0)
    is_whole_x = x.equals(x.apply("floor"))
    pole = select(is_even, value.constant(inf), value.constant(nan))
    value = select(x < 1, nan, value)
    value = select((q <= 0) & is_whole_q, pole, value)
    value = select((q <= 0) & ~is_whole_q & ~is_whole_x, nan, value)
    return select(x.equals(1), inf, value)


def factorial_of(n: Term) -> Term:
    """n! for whole n."""
    product = n.constant(1)
    for k in range(2, LARGEST_EXACT + 1):
        product = select(n >= k, product * k, product)
    larger = product * (log_gamma(n + 1) - log_gamma_at(LARGEST_EXACT)).apply("exponential")
    return select(n > LARGEST_EXACT, larger, product)


def log_gamma_at(n: int) -> float:
    """log n!"""
    from math import lgamma

    return lgamma(n + 1)


def polygamma(n: Term, x: Term) -> Term:
    """The n-th derivative of digamma; NaN where n is not 0, 1, 2, ..."""
    sign = select(n.remainder(2).equals(0), n.constant(-1), n.constant(1))
    value = sign * factorial_of(n) * zeta(n + 1, x)
    value = select(n.equals(0), digamma(x), value)
    is_valid = n.equals(n.apply("floor")) & (n >= 0)
    return select(is_valid, value, float("nan"))
