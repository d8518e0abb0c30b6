"""Results of two runs of one program: how far apart they are, and where most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom import api
from hloom.tools.arrays import leaves, pieces

TOLERANCES = {
    "float64": 1e-9,
    "complex128": 1e-9,
    "float32": 2e-4,
    "complex64": 2e-4,
    "float16": 4e-3,
    "bfloat16": 3e-2,
}
"""How far results may differ, of the larger of the value and the mean magnitude of its array."""
NARROW = 0.3
"""The same for floats of 8 bits and less."""


@dataclass(frozen=True)
class Difference:
    """How one array differs from what it should be; `error` is relative, as tolerances are."""

    name: str
    shape: str
    error: float
    tolerance: float
    index: tuple[int, ...]
    """The worst element, and what it is and should be."""
    found: Any
    expected: Any

    @property
    def is_within(self) -> bool:
        return self.error <= self.tolerance

    def as_dict(self) -> dict[str, Any]:
        finite = bool(np.isfinite(self.error))
        return {
            "name": self.name,
            "shape": self.shape,
            "within": self.is_within,
            "error": self.error if finite else str(self.error),
            "tolerance": self.tolerance,
            "worst": list(self.index),
            "found": str(self.found),
            "expected": str(self.expected),
        }


def differences(results: api.Literal, expected: api.Literal) -> list[Difference]:
    """One for each array of the result."""
    return [
        _difference(name, shape.text_without_layout, x, y)
        for (name, shape, x), (_, _, y) in zip(
            leaves(results, "result"), leaves(expected, "result")
        )
    ]


def tolerance(dtype: np.dtype[Any]) -> float:
    """How far elements of a type may be apart; 0 for integers."""
    if dtype.kind in "biu" or dtype.name.startswith(("int", "uint")):
        return 0.0
    return TOLERANCES.get(dtype.name, NARROW)


def _difference(name: str, shape: str, x: np.ndarray, y: np.ndarray) -> Difference:
    allowed = tolerance(y.dtype)
    if x.shape != y.shape or x.dtype != y.dtype:
        return Difference(name, shape, float("inf"), allowed, (), x.shape, y.shape)
    if not y.size:
        return Difference(name, shape, 0.0, allowed, (), None, None)
    scale = _mean_magnitude(y)
    worst, at = -1.0, 0
    for start, a, b in pieces(x, y):
        error = _errors(a, b, scale, exact=not allowed)
        k = int(np.argmax(error))
        if error[k] > worst:
            worst, at = float(error[k]), start + k
    index = tuple(int(k) for k in np.unravel_index(at, y.shape))
    return Difference(name, shape, worst, allowed, index, x[index], y[index])


def _mean_magnitude(array: np.ndarray) -> float:
    """The mean of the absolute values of what is finite."""
    total, count = 0.0, 0
    for piece in pieces(array):
        with np.errstate(all="ignore"):
            size = np.abs(_wide(piece))
        finite = size[np.isfinite(size)]
        total, count = total + float(finite.sum()), count + finite.size
    return total / count if count else 0.0


def _errors(x: np.ndarray, y: np.ndarray, scale: float, *, exact: bool) -> np.ndarray:
    """How far each element is from what it should be, of the larger of it and `scale`."""
    with np.errstate(all="ignore"):
        a, b = _wide(x), _wide(y)
        gap = np.abs(a - b)
        error = gap
        if not exact:
            error = gap / np.maximum(np.maximum(np.abs(b), scale), np.finfo(float).tiny)
    same = (x == y) | ((x != x) & (y != y))
    error = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
    if exact:  # integers too large for a float differ by at least one
        error = np.where(same, 0.0, np.maximum(error, 1.0))
    return error


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)
