"""Exponentials whose results are below the normal numbers."""

from __future__ import annotations

import numpy as np
import pytest

import hloom

POINTS = np.array([-1e9, -110, -103, -100, -90, -87.34, -87.3, -80, 0, 1, np.inf, np.nan], "f4")


def module(body: str, of: str) -> str:
    return f"""HloModule exponentials
ENTRY main {{
  x = {of}[3,{len(POINTS)}] parameter(0)
  y = {of}[3,{len(POINTS)}] parameter(1)
  {body}
}}
"""


def run(body: str, of: str = "f32") -> np.ndarray:
    executable = hloom.compile(module(body, of))
    kind = "f4" if of == "f32" else "f8"
    x = np.broadcast_to(POINTS.astype(kind), (3, len(POINTS)))
    return np.asarray(executable(np.ascontiguousarray(x), np.zeros(x.shape, kind)))[0]


@pytest.mark.parametrize("of", ["f32", "f64"])
def test_of_numbers_they_are_kept(of: str) -> None:
    with np.errstate(over="ignore", under="ignore"):
        wanted = np.exp(POINTS.astype("f4" if of == "f32" else "f8"))
    shown = run(f"ROOT e = {of}[3,{len(POINTS)}] exponential(x)", of)
    np.testing.assert_allclose(shown, wanted, rtol=1e-6, atol=2e-45 if of == "f32" else 0)


def test_of_differences_they_are_zero() -> None:
    of = f"f32[3,{len(POINTS)}]"
    shown = run(f"d = {of} subtract(x, y)\n  ROOT e = {of} exponential(d)")
    with np.errstate(over="ignore", under="ignore"):
        wanted = np.exp(POINTS)
    wanted[wanted < 2.0**-126] = 0
    np.testing.assert_allclose(shown, wanted, rtol=1e-6)
    assert (shown[:6] == 0).all()
