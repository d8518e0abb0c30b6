"""What `check.expect_eq` and its kind mean: StableHLO's own test programs call them.

Each compares what a program computed with what it expects, and has no value. Values that differ are
an error that names the first of them; NaN equals NaN. `check.eq` gives one truth value instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.call import TARGETS
from hloom.interp.context import EvalContext
from hloom.interp.values import EvalValue
from hloom.ir.instruction import Instruction

Array = np.ndarray[Any, Any]
Near = Callable[[Array, Array], Array]
MOST_STEPS = 3
"""So many numbers of the type may lie between what `check.expect_close` compares."""
TOLERANCE = 1e-3
"""What `check.expect_almost_eq` allows, absolute."""


@TARGETS.of("check.eq")
def equal(i: Instruction, context: EvalContext, x: Array, y: Array) -> EvalValue:
    """Whether all are equal."""
    same = np.array(x.shape == y.shape and bool(_same(x, y).all()))
    return () if i.shape.is_tuple else same


@TARGETS.of("check.expect_eq")
def expect_equal(i: Instruction, context: EvalContext, x: Array, y: Array) -> EvalValue:
    """Nothing; an error where two values differ."""
    return _expect(i, x, y, _same)


@TARGETS.of("check.expect_almost_eq")
def expect_almost(i: Instruction, context: EvalContext, x: Array, y: Array) -> EvalValue:
    """Nothing; an error where two values differ by more than a thousandth."""
    return _expect(i, x, y, lambda a, b: np.abs(_wide(a) - _wide(b)) <= TOLERANCE)


@TARGETS.of("check.expect_close")
def expect_close(i: Instruction, context: EvalContext, x: Array, y: Array) -> EvalValue:
    """Nothing; an error where more than three numbers of the type lie between two values."""
    return _expect(i, x, y, _few_steps)


def _expect(i: Instruction, x: Array, y: Array, near: Near) -> EvalValue:
    target = i.attrs.custom_call_target
    if x.shape != y.shape or x.dtype != y.dtype:
        both = f"{x.dtype}{list(x.shape)} was computed and {y.dtype}{list(y.shape)} expected"
        raise EvalError(f"{target}: {both}", instruction=f"%{i.name}")
    with np.errstate(all="ignore"):
        good = _same(x, y) | near(x, y)
    if not good.all():
        at = tuple(int(k) for k in np.argwhere(~good)[0])
        raise EvalError(
            f"{target}: {x[at]} was computed and {y[at]} expected at {list(at)}, and "
            f"{int((~good).sum())} of {good.size} differ",
            instruction=f"%{i.name}",
        )
    return ()


def _same(x: Array, y: Array) -> Array:
    """Where values are equal; NaN equals NaN, in each part of complex numbers."""
    if x.dtype.kind == "c":
        return _same(x.real, y.real) & _same(x.imag, y.imag)
    return (x == y) | ((x != x) & (y != y))


def _wide(x: Array) -> Array:
    return x if x.dtype.kind == "c" else x.astype(np.float64)


def _few_steps(x: Array, y: Array) -> Array:
    """Where at most `MOST_STEPS` steps lead from one finite number of the type to the other."""
    if x.dtype.kind == "c":
        parts = zip((x.real, x.imag), (y.real, y.imag))
        one, other = (_same(a, b) | _few_steps(a, b) for a, b in parts)
        return one & other
    if x.dtype.kind in "iub" or "int" in x.dtype.name:
        return x == y
    finite = np.isfinite(_wide(x)) & np.isfinite(_wide(y))
    return finite & (np.abs(_position(x) - _position(y)) <= MOST_STEPS)


def _position(x: Array) -> Array:
    """Which number of its type each is, counted from zero; both zeros are one."""
    size = x.dtype.itemsize
    if size == 1:  # several formats: count their values
        codes = np.arange(256, dtype=np.uint8).view(x.dtype).astype(np.float64)
        return np.searchsorted(np.unique(codes[np.isfinite(codes)]), x.astype(np.float64))
    bits = x.view(f"i{size}").astype(object if size == 8 else np.int64)
    return np.where(bits < 0, np.iinfo(f"i{size}").min - bits, bits)
