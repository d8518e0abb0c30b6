"""The program with f64 in place of f32: how far roundings may carry it.

A loop that multiplies its state grows a difference in the last bit to one in the third digit; then
the interpreter is no better a judge than what it judges. The same program in f64 tells.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hloom.base.diagnostics import HloError
from hloom.interp import EvalOptions, evaluate
from hloom.ir.module import Module
from hloom.ir.text import PrintOptions, parse_module, show_module
from tests.fuzz.check_native import literal_leaves

OTHERWISE = frozenset("bitcast-convert rng rng-bit-generator custom-call reduce-precision".split())
"""What means something else in another type."""
AS_NEAR = 8
"""Times the error of one result that the other's may be, the largest and the mean."""


def wide_results(module: Module, leaves: list[Any], options: EvalOptions) -> list[Any] | None:
    """What a program computes whose f32 are f64; None if that is no better."""
    if any(i.opcode in OTHERWISE for i in module.instructions()):
        return None
    if any(not p.shape.is_array for p in module.entry.parameters):
        return None
    text = show_module(module, PrintOptions(large_constants=True, metadata=False))
    wide = parse_module(re.sub(r"\bc64\[", "c128[", re.sub(r"\bf32\[", "f64[", text)))
    types = {"float32": np.float64, "complex64": np.complex128}
    given = [x.astype(types.get(x.dtype.name, x.dtype)) for x in leaves]
    try:
        return [x.array for x in literal_leaves(evaluate(wide, *given, options=options))]
    except HloError:
        return None


def is_as_near(got: np.ndarray, want: np.ndarray, wide: np.ndarray) -> bool:
    """Whether two results are about as near to that in f64; if not, one of them is wrong."""
    if got.dtype.kind not in "fc" or not np.isfinite(wide).all():
        return False
    first, second = (np.abs(x.astype(wide.dtype) - wide) for x in (got, want))
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        return False
    pairs = (first.max(initial=0), second.max(initial=0)), (first.mean(), second.mean())
    return all(max(pair) <= AS_NEAR * min(pair) for pair in pairs)
