"""Largest errors of the f32 functions of one operand over (nearly) all floats, against numpy's f64.

Run: python -m bench.ulp [stride]; stride 1 takes every float (minutes per function).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from hloom.codegen.llvm.math import MATH
from tests.codegen.llvm.machine_code import HOST, Code, mapped, module_text

CHUNK = 1 << 22
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cosh": np.cosh,
    "cosine": np.cos,
    "exp2": np.exp2,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "log2": np.log2,
    "logistic": lambda x: np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x))),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sine": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}


def worst(name: str, stride: int) -> tuple[float, float]:
    """The largest error in ulp, infinite if a result is no number where it should be one or the
    other way round, and the argument where it is."""
    code = Code(module_text([mapped(MATH[name], ["f32"], ["f32"], 64, HOST)], HOST))
    function = code.function("f", 3)
    found, where = 0.0, 0.0
    for start in range(0, 1 << 32, CHUNK * stride):
        bits = np.arange(start, min(start + CHUNK * stride, 1 << 32), stride, dtype=np.uint32)
        bits = np.resize(bits, -(-bits.size // 64) * 64)
        x = bits.view(np.float32)
        got = np.empty_like(x)
        function(x.ctypes.data, got.ctypes.data, x.size)
        with np.errstate(all="ignore"):
            exact = FUNCTIONS[name](x.astype(np.float64))
            want = exact.astype(np.float32)
            exponent = np.maximum(np.frexp(exact)[1] - 1, -126)
            error = np.abs(got - exact) * np.ldexp(1.0, 23 - exponent)
        usual = np.isfinite(got) & np.isfinite(want)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        error = np.where(usual, error, np.where(same, 0.0, np.inf))
        k = int(np.argmax(error))
        if error[k] > found:
            found, where = float(error[k]), float(x[k])
    return found, where


if __name__ == "__main__":
    every = int(sys.argv[1]) if len(sys.argv) > 1 else 101
    for name in sys.argv[2:] or FUNCTIONS:
        error, where = worst(name, every)
        print(f"{name:24s} {error:7.3f} ulp at {where!r}", flush=True)
