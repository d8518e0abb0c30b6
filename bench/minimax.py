"""Makes hloom/codegen/llvm/math/coefficients.py: minimax polynomials of the vector functions.

Remez's exchange in 60 digits: through n + 1 points the polynomial with equal, alternating weighted
errors is a linear system; the points move to the extrema of its error until these are equal.
The weight makes the error that of the whole function in units of its value, not of the part that
the polynomial stands for. Run: python -m bench.minimax
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath

mp: Any = mpmath
OUTPUT = Path(__file__).parent.parent / "hloom/codegen/llvm/math/coefficients.py"
GRID = 600


def minimax(
    f: Callable[[Any], Any], weight: Callable[[Any], Any], low: Any, high: Any, terms: int
) -> tuple[list[Any], float]:
    """Coefficients, lowest power first, and the base-2 logarithm of the weighted error."""
    low, high = mp.mpf(low), mp.mpf(high)
    middle, half = (low + high) / 2, (high - low) / 2
    grid = [middle - half * mp.cos(mp.pi * (k + mp.mpf("0.5")) / GRID) for k in range(GRID)]
    values = [f(x) for x in grid]
    weights = [weight(x) for x in grid]
    step = (GRID - 1) / terms
    points = [round(k * step) for k in range(terms + 1)]
    for _ in range(12):
        rows = [
            [grid[p] ** k for k in range(terms)] + [(-1) ** i / weights[p]]
            for i, p in enumerate(points)
        ]
        solved = mp.lu_solve(mp.matrix(rows), mp.matrix([values[p] for p in points]))
        made = list(solved)[:terms]
        errors = [w * (mp.polyval(made[::-1], x) - v) for x, v, w in zip(grid, values, weights)]
        again = _extrema(errors, terms + 1)
        if again == points:
            break
        points = again
    return made, float(mp.log(max(abs(e) for e in errors), 2))


def _extrema(errors: list[Any], count: int) -> list[int]:
    """Grid points of alternating extrema, as many as wanted, the largest in a row."""
    found: list[int] = []
    for k, e in enumerate(errors):
        if found and (errors[found[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[found[-1]]):
                found[-1] = k
        else:
            found.append(k)
    while len(found) > count:
        found.pop(0 if abs(errors[found[0]]) < abs(errors[found[-1]]) else -1)
    if len(found) < count:
        raise ArithmeticError(
            f"{len(found)} extrema, {count} wanted: too many terms for the digits"
        )
    return found


def _odd(f: Callable[[Any], Any]) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """f(x) = x + x z P(z), z = x * x."""
    return (
        lambda z: (f(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
        lambda z: z * mp.sqrt(z) / f(mp.sqrt(z)),
    )


def _exp_part(r: Any) -> Any:
    return (mp.exp(r) - 1 - r) / r**2


def _log_part(f: Any) -> Any:
    return (mp.log1p(f) - f + f * f / 2) / f**3


def _atanh_part(z: Any) -> Any:
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2) / z


def _atanh_tail(z: Any) -> Any:
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2 - 2 * z / 3) / z**2


def _cos_part(z: Any) -> Any:
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


def _erf_excess(a: Any) -> Any:
    return -mp.log(mp.erfc(a)) / a - 1


def _erf_weight(a: Any) -> Any:
    return a * mp.erfc(a) / mp.erf(a)


HALF_LN2 = math.log(2) / 2 * 1.001
ROOT = math.sqrt(2)
QUARTER = (math.pi / 4 * 1.01) ** 2
ATANH = ((ROOT - 1) / (ROOT + 1)) ** 2 * 1.001

# name: f, weight, interval (for f32, f64), terms (for f32, f64)
FITS: dict[str, tuple[Any, Any, Any, Any, tuple[int, int]]] = {
    "EXP": (_exp_part, lambda r: r * r / mp.exp(r), -HALF_LN2, HALF_LN2, (5, 10)),
    "LOG": (_log_part, lambda f: f**3 / mp.log1p(f), 1 / ROOT - 1.001, ROOT - 0.999, (8, 0)),
    "ATANH": (_atanh_part, lambda z: z / 2, 0, ATANH, (0, 7)),
    "ATANH_TAIL": (_atanh_tail, lambda z: z * z / 2, 0, ATANH, (4, 8)),
    "TANH": (*_odd(mp.tanh), 0, 0.4, (5, 11)),
    "ERF": (_erf_excess, _erf_weight, 0, (3.95, 6), (9, 26)),
    "SIN": (*_odd(mp.sin), 0, QUARTER, (3, 6)),
    "COS": (_cos_part, lambda z: z * z, 0, QUARTER, (3, 6)),
    "ATAN": (*_odd(mp.atan), 0, 0.2501, (5, 12)),
    "ASIN": (*_odd(mp.asin), 0, 0.2501, (5, 12)),
    "SINH": (*_odd(mp.sinh), 0, 1.001, (4, 7)),
    "CBRT": (lambda r: r ** (-mp.mpf(1) / 3), lambda r: 1, 0.9, 1.11, (5, 5)),
}


# name: value, digits of each word for f32, for f64. Words of few digits leave room for an exact
# product with a small integer.
WORDS: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...]]] = {
    "LN2": (lambda: mp.log(2), (15, 24), (41, 53)),
    "LOG2_E": (lambda: 1 / mp.log(2), (24, 24), (53, 53)),
    "HALF_PI": (lambda: mp.pi / 2, (24, 24, 24), (53, 53, 53)),
    "HALF_PI_SHORT": (lambda: mp.pi / 2, (11, 11, 11, 24), (33, 33, 33, 53)),
    "TWO_THIRDS": (lambda: mp.mpf(2) / 3, (24, 24), (53, 53)),
    "QUARTER_PI": (lambda: mp.pi / 4, (21, 24), (50, 53)),
}
TURN_DIGITS = 1168


def words(value: Any, digits: tuple[int, ...]) -> list[float]:
    """The value as a sum of floats of so many binary digits, the largest first."""
    out = []
    for count in digits:
        mantissa, exponent = mp.frexp(value)
        word = mp.ldexp(mp.nint(mp.ldexp(mantissa, count)), exponent - count)
        out.append(float(word))
        value -= word
    return out


def rounded(kind: str, value: Any) -> float:
    """To the nearest value of the kind."""
    made = float(value)
    return made if kind == "f64" else struct.unpack("<f", struct.pack("<f", made))[0]


def text() -> str:
    """The module of coefficients."""
    out = ['"""Minimax coefficients, lowest power first, written by bench/minimax.py.']
    out += ["", "After each name: the base-2 logarithm of the relative error it leaves.", '"""', ""]
    out += ["POLYNOMIALS: dict[tuple[str, str], tuple[float, ...]] = {"]
    for name, (f, weight, low, high, terms) in FITS.items():
        for at, kind in enumerate(("f32", "f64")):
            if not terms[at]:
                continue  # not used in this format
            end = high[at] if isinstance(high, tuple) else high
            made, error = minimax(f, weight, low, end, terms[at])
            print(name, kind, terms[at], f"2**{error:.1f}", flush=True)
            out += [f'    ("{name}", "{kind}"): (  # 2**{error:.1f}']
            out += [f"        {rounded(kind, c)!r}," for c in made] + ["    ),"]
    out += ["}", "", "WORDS: dict[tuple[str, str], tuple[float, ...]] = {"]
    for name, (value, *digits) in WORDS.items():
        for kind, count in zip(("f32", "f64"), digits):
            made = ", ".join(map(repr, words(value(), count)))
            out += [f'    ("{name}", "{kind}"): ({made}),']
    with mp.workdps(400):
        turn = int(mp.floor(mp.ldexp(2 / mp.pi, TURN_DIGITS)))
    digits = f"{turn:x}"
    out += ["}", '"""Numbers as unevaluated sums of floats."""', "", f"TURN_DIGITS = {TURN_DIGITS}"]
    out += ["TWO_OVER_PI = int("]
    out += [f'    "{digits[k : k + 80]}"' for k in range(0, len(digits), 80)]
    out += ["    , 16)", '"""2 / pi times 2 to the TURN_DIGITS, rounded down."""']
    return "\n".join(out + [""])


if __name__ == "__main__":
    mp.mp.dps = 60
    OUTPUT.write_text(text(), encoding="utf-8")
