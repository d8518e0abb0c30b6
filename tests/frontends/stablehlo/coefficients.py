"""Works out `hloom/frontends/stablehlo/chlo_coefficients.py`: run this file to write it again.

Each function is interpolated by mpmath at Chebyshev nodes, more than are kept; what is kept is
all that a double can see.
"""

from collections.abc import Callable
from pathlib import Path

import mpmath as mp

mp.mp.dps = 50
TARGET = Path("hloom/frontends/stablehlo/chlo_coefficients.py")
SMALLEST = mp.mpf(2) ** -56
"""Terms below this, relative to the largest, change no digit of a double."""

HEAD = '''"""Chebyshev coefficients of the functions that CHLO has and HLO has not.

Written by tests/frontends/stablehlo/coefficients.py, which says how; a test holds that they are
what it works out. T0 has its whole weight (nothing is halved). Single precision takes the first
terms only, or tables of its own (`_SINGLE`): of powers, the lowest first.
"""

'''


def series(f: Callable, count: int) -> list:
    """The coefficients of f on [-1, 1] that matter, from twice as many nodes as could."""
    n = 2 * count
    nodes = [mp.cos(mp.pi * (k + mp.mpf(1) / 2) / n) for k in range(n)]
    values = [f(x) for x in nodes]
    found = []
    for j in range(count):
        total = mp.fsum(
            v * mp.cos(mp.pi * j * (k + mp.mpf(1) / 2) / n) for k, v in enumerate(values)
        )
        found.append(total * (1 if j == 0 else 2) / n)
    largest = max(abs(c) for c in found)
    while abs(found[-1]) < SMALLEST * largest:
        found.pop()
    return found


def on(low, high, f: Callable) -> Callable:
    """f on an interval, as a function on [-1, 1]."""
    low, high = mp.mpf(low), mp.mpf(high)
    return lambda t: f((high - low) / 2 * t + (high + low) / 2)


def log_gamma_1(d):
    return mp.loggamma(1 + d) / d if d else -mp.euler


def log_gamma_2(d):
    return mp.loggamma(2 + d) / d if d else 1 - mp.euler


ROOT = mp.findroot(mp.digamma, mp.mpf("1.4616321449683623"))


def digamma(x):
    return mp.digamma(x) / (x - ROOT) if x != ROOT else mp.psi(1, x)


def scaled_erfc(t):
    x = mp.mpf(1) / 2 + 3 * (1 + t) / (1 - t)
    return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)


def erf_inv(w):
    """erf_inv(x) / x for w = -log(1 - x * x)."""
    if w == 0:
        return mp.sqrt(mp.pi) / 2
    small = mp.exp(-w)  # 1 - x * x
    x = mp.sqrt(1 - small)
    y = mp.erfinv(x) if w < 20 else _tail(small, x)
    return y / x


def _tail(small, x):
    """The y with erfc(y) = 1 - x, from a good start."""
    wanted = small / (1 + x)
    return mp.findroot(
        lambda y: mp.log(mp.erfc(y)) - mp.log(wanted), mp.sqrt(-mp.log(wanted)) - 0.3
    )


def erfc_excess(t):
    """(e**(a a) erfc(a) (1 + 2 a) - 1) / (1 + t) for t = (a - 3) / (a + 3)."""
    if t < mp.mpf("-0.999999999999"):
        return 3 - 3 / mp.sqrt(mp.pi)
    a = 6 / (1 - t) - 3
    return (mp.exp(a * a) * mp.erfc(a) * (1 + 2 * a) - 1) / (1 + t)


def powers(f: Callable, low, high, count: int) -> list:
    """The coefficients of the polynomial through f at Chebyshev nodes, the lowest first."""
    return mp.chebyfit(f, [low, high], count)[::-1]


def bessel_near(x):
    return mp.exp(-x) * mp.besseli(1, x) / x if x else mp.mpf(1) / 2


def bessel_far(t):
    x = 16 / (t + 1)
    return mp.exp(-x) * mp.besseli(1, x) * mp.sqrt(x)


def tables() -> dict[str, list]:
    return {
        "LOG_GAMMA_1": series(on(-0.5, 0.5, log_gamma_1), 36),
        "LOG_GAMMA_2": series(on(-0.5, 0.5, log_gamma_2), 30),
        "DIGAMMA": series(on(1, 2, digamma), 30),
        "SCALED_ERFC": series(scaled_erfc, 40),
        "ERF_INV_CENTRE": series(on(0, 6.25, erf_inv), 40),
        "ERF_INV_SIDE": series(on(2.5, 4, lambda s: erf_inv(s * s)), 36),
        "ERF_INV_TAIL": series(on(4, 6.25, lambda s: erf_inv(s * s)), 36),
        "ERFC_SINGLE": powers(erfc_excess, -1, mp.mpf(4) / 7, 10),
        "ERF_INV_CENTRE_SINGLE": powers(on(0, mp.mpf("5.0625"), erf_inv), -1, 1, 10),
        "ERF_INV_SIDE_SINGLE": powers(on(2.25, 4, lambda s: erf_inv(s * s)), -1, 1, 10),
        "BESSEL_NEAR": series(on(0, 3, bessel_near), 40),
        "BESSEL_MIDDLE": series(on(3, 8, bessel_near), 40),
        "BESSEL_FAR": series(bessel_far, 40),
    }


def text() -> str:
    parts = [HEAD + f'DIGAMMA_ROOT = "{mp.nstr(ROOT, 40)}"\n']
    for name, terms in tables().items():
        lines = "".join(f"    {float(c)!r},\n" for c in terms)
        parts.append(f"{name} = (\n{lines})\n")
    return "".join(parts)


if __name__ == "__main__":
    TARGET.write_text(text())
