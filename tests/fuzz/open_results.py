"""What a program leaves open, so that a difference in it is no find.

A reduction takes its elements in any order: a reducer for which order matters (a difference, a
quotient, the index of one of several equal values) has no single result. And a sum of narrow
floats that rounds at every step, as it must where excess precision is switched off, moves away from
the sum that rounds once by as many roundings as it has terms.
"""

from __future__ import annotations

from functools import reduce as folded
from math import prod
from typing import Any

import numpy as np

from hloom.base.diagnostics import HloError
from hloom.interp import evaluate
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.types.literal import Literal

FOLDS = frozenset(
    "reduce reduce-window scatter select-and-scatter all-reduce all-reduce-start reduce-scatter "
    "collective-reduce".split()
)
SAMPLES = 24
SAMPLE_TOLERANCE = 1e-2
"""Of a reducer's values in other orders; one for which order matters is off by more somewhere."""


def is_open(module: Module) -> bool:
    """Whether some reduction of the program has no single result."""
    reducers = {i.called[-1] for i in module.instructions() if i.opcode in FOLDS and i.called}
    return any(not has_single_result(c) for c in reducers)


def has_single_result(reducer: Computation) -> bool:
    """Whether a reducer gives the same in any order, on small integers of its types."""
    rng = np.random.default_rng(0)
    accumulators = reducer.parameters[: len(reducer.parameters) // 2]
    try:
        for _ in range(SAMPLES):
            a, b, c = ([_sample(p, rng) for p in accumulators] for _ in range(3))
            orders = ((a, b, c), (b, a, c), (c, b, a))
            first, *others = [folded(lambda x, y: _run(reducer, x, y), order) for order in orders]
            others.append(_run(reducer, a, _run(reducer, b, c)))
            if not all(_alike(first, other) for other in others):
                return False
    except HloError:
        return True
    return True


def _sample(p: Instruction, rng: np.random.Generator) -> Any:
    return np.asarray(rng.integers(0, 4), np.float64).astype(p.shape.dtype.numpy)


def _run(reducer: Computation, x: list[Any], y: list[Any]) -> list[Any]:
    with np.errstate(all="ignore"):
        found: Literal = evaluate(reducer, *x, *y)
    # One that mixes precisions gives another type than it takes.
    leaves = [leaf.array for leaf in found.leaves()]
    return [v.astype(old.dtype) for v, old in zip(leaves, x, strict=True)]


def _alike(x: list[Any], y: list[Any]) -> bool:
    with np.errstate(all="ignore"):
        return all(
            np.allclose(
                a.astype(np.complex128), b.astype(np.complex128), SAMPLE_TOLERANCE, equal_nan=True
            )
            for a, b in zip(x, y)
        )


def rounded_at_every_step(module: Module) -> float:
    """How far, relative to the sum of magnitudes, the longest fold of narrow floats may be from
    the one that rounds once: the number of its terms times the rounding of one step."""
    most = 0.0
    for i in module.instructions():
        if i.opcode not in FOLDS or not i.operands or not i.operands[0].shape.is_array:
            continue
        dtype = i.operands[0].shape.dtype
        if dtype.is_floating and dtype.bits <= 16:
            most = max(most, terms(i) * float(_precision(dtype.numpy)))
    return most


def _precision(of: Any) -> float:
    """Half a step, relative."""
    import ml_dtypes

    return float(ml_dtypes.finfo(of).eps) / 2


def terms(i: Instruction) -> int:
    """How many values meet in one result of a fold, at most."""
    window = getattr(i.attrs, "window", None)
    if window is not None and window.dimensions:
        sizes = zip(window.dimensions, i.operands[0].shape.dims)
        return prod(min(d.size, max(n, 1)) for d, n in sizes)
    if i.opcode == "scatter":
        return i.operands[-1].shape.size
    if i.opcode == "reduce":
        return prod(i.operands[0].shape.dims[d] for d in i.attrs.dimensions)
    return max(2, i.parent.module.replica_count * i.parent.module.num_partitions)
