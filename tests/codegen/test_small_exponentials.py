"""Exponentials whose results are below the normal numbers."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from tests.subnormal import flushed

POINTS = np.array([-1e9, -746, -745, -709, -708, -110, -103, -100, -90, -87.34, -87.3, 0, 1], "f8")
POINTS = np.append(POINTS, [np.inf, -np.inf, np.nan])
FORMS = {
    "numbers": "exponential(x)",
    "differences": "exponential(d)",
    "binary": "power(twos, x)",
    "logistic": "logistic(x)",
}


@pytest.mark.parametrize("isa", ["", "AVX2", "SSE4_2"])
@pytest.mark.parametrize("of", ["f32", "f64"])
@pytest.mark.parametrize("form", list(FORMS))
def test_they_are_zero_and_the_others_right(form: str, of: str, isa: str) -> None:
    kind = "f4" if of == "f32" else "f8"
    x = np.ascontiguousarray(np.broadcast_to(POINTS.astype(kind), (3, len(POINTS))))
    shape = f"{of}[3,{len(POINTS)}]"
    text = f"""HloModule exponentials
ENTRY main {{
  x = {shape} parameter(0)
  y = {shape} parameter(1)
  d = {shape} subtract(x, y)
  two = {of}[] constant(2)
  twos = {shape} broadcast(two), dimensions={{}}
  ROOT r = {shape} {FORMS[form]}
}}
"""
    options = {"xla_cpu_max_isa": isa} if isa else {}
    shown = np.asarray(hloom.compile(text, options=options)(x, np.zeros_like(x)))
    wide = x.astype(np.longdouble)
    with np.errstate(all="ignore"):
        exact = np.exp2(wide) if form == "binary" else np.exp(wide)
        if form == "logistic":
            exact = 1 / (1 + np.exp(-wide))
        wanted = flushed(exact.astype(kind))
    np.testing.assert_allclose(shown, wanted, rtol=4 * np.finfo(kind).eps)
