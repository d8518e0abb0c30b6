"""Makes hloom/codegen/llvm/math/tables.py: polynomials of which each interval has its own.

A function of f32 is cut into at most as many intervals as a register has lanes. In each it is
f(c) + t * (a + b t + ...), t = x - c, and c is where f is hardly rounded as a float, so that the
sum of f(c) and the small rest is all that is. The first interval is that around 0, where the
function is odd: t + t * (a + ...). Run: python -m bench.minimax_tables
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

from bench.minimax import minimax, rounded
from hloom.codegen.llvm.math.tabled import ERF_IS_ONE, TANH_IS_ONE

mp: Any = mpmath
OUTPUT = Path(__file__).parent.parent / "hloom/codegen/llvm/math/tables.py"


@dataclass(frozen=True)
class Piece:
    """An interval: the polynomial of `terms` is that of t = x - centre, from `low` to `high`."""

    centre: float
    low: float
    high: float


def equal_pieces(f: Callable[[float], float], last: float, count: int) -> list[Piece]:
    """Intervals of one width around its multiples: of widths that will do that of which all
    centres but 0 have values that are hardly rounded."""
    least = last / (count - 0.5)
    widths = [float(np.float32(least * (1 + k * 1e-5))) for k in range(1, 2000)]
    width = min(widths, key=lambda w: max(_lost(f, n * w) for n in range(1, count)))
    centres = [n * width for n in range(count)]
    return [Piece(c, c - width / 2, min(c + width / 2, last)) for c in centres]


def binary_pieces(
    f: Callable[[float], float], first: float, last: float, digits: int
) -> list[Piece]:
    """The interval below `first`, and those of all numbers of one exponent and leading digits."""
    pieces = [Piece(0.0, 0.0, first)]
    low = first
    while low < last:
        high = low + 2.0 ** (math.frexp(low)[1] - 1 - digits)
        middle, step = (low + high) / 2, (high - low) * 1e-5
        near = [float(np.float32(middle + k * step)) for k in range(-1500, 1501)]
        centre = min(near, key=lambda c: _lost(f, c))
        pieces.append(Piece(centre, low, min(high, last)))
        low = high
    return pieces


def _lost(f: Callable[[float], float], x: float) -> float:
    """By how much the value there is rounded, in units of the last digit."""
    y = f(x)
    return abs(float(np.float32(y)) - y) / 2.0 ** (math.frexp(y)[1] - 24)


def fitted(f: Callable[[Any], Any], piece: Piece, terms: int) -> tuple[list[float], float]:
    """The value at the centre, and the coefficients of what is multiplied by t; the error."""
    c = mp.mpf(piece.centre)
    low, high = mp.mpf(piece.low) - c, mp.mpf(piece.high) - c
    if not piece.centre:  # t + t * P(t * t)
        made, error = minimax(
            lambda z: f(mp.sqrt(z)) / mp.sqrt(z) - 1,
            lambda z: mp.sqrt(z) / f(mp.sqrt(z)),
            0,
            high * high,
            (terms + 1) // 2,
        )
        spread = [0.0] * terms
        spread[::2] = [rounded("f32", x) for x in made]
        return [0.0, *spread], error
    start = rounded("f32", f(c))
    at = {mp.mpf(0): mp.diff(f, c)}
    made, error = minimax(
        lambda t: at[t] if t in at else (f(c + t) - f(c)) / t,
        lambda t: abs(t) / f(c + t),
        low,
        high,
        terms,
    )
    return [start, *[rounded("f32", x) for x in made]], error


FITS: dict[str, tuple[Any, dict[int, tuple[list[Piece], int]]]] = {
    # Of 16 intervals the second would end where results have smaller digits than what is summed.
    "ERF": (mp.erf, {8: (equal_pieces(math.erf, ERF_IS_ONE, 8), 7)}),
    "TANH": (
        mp.tanh,
        {
            8: (binary_pieces(math.tanh, 0.25, TANH_IS_ONE, 0), 9),
            16: (binary_pieces(math.tanh, 0.25, TANH_IS_ONE, 1), 7),
        },
    ),
}


def text() -> str:
    """The module of tables."""
    out = ['"""Polynomials of which each interval has its own, by bench/minimax_tables.py.', ""]
    out += ["By name and number of lanes: centres, then the coefficients of each power, lowest"]
    out += ["first, as `tabled.py` reads them. After each name: the base-2 logarithm of the"]
    out += ['largest relative error."""', "", "Row = tuple[float, ...]", ""]
    out += ["TABLES: dict[tuple[str, int], tuple[Row, ...]] = {"]
    for name, (f, sizes) in FITS.items():
        for lanes, (pieces, terms) in sizes.items():
            fits = [fitted(f, p, terms) for p in pieces]
            error = max(e for _, e in fits)
            print(name, lanes, terms, [f"{e:.1f}" for _, e in fits], flush=True)
            out += [f'    ("{name}", {lanes}): (  # 2**{error:.1f}']
            rows = [[p.centre for p in pieces], *zip(*[c for c, _ in fits])]
            out += [f"        ({', '.join(map(repr, row))})," for row in rows] + ["    ),"]
    return "\n".join([*out, "}", ""])


if __name__ == "__main__":
    mp.mp.dps = 40
    OUTPUT.write_text(text(), encoding="utf-8")
