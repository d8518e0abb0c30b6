"""What it takes to fold arrays with a called computation, known to numpy or not.

A `Fold` hides the difference: for a combiner that is one known operation it is a ufunc on arrays
in a type numpy computes well in (f16 and bf16 in f32, sums of f32 in f64, sub-byte integers in
32 bits; floats of 8 bits and less in their own type, rounded at each step as XLA does); for any
other it is the called computation itself on whole arrays. `enter` takes values into that form,
`leave` takes results out of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.interp import elementwise_real as of_real
from hloom.interp.context import EvalContext
from hloom.interp.elementwise_number import narrowed, widened
from hloom.ir.computation import Computation
from hloom.types.dtype import DType

Array = np.ndarray[Any, Any]
Arrays = tuple[Array, ...]

_UFUNCS: dict[str, np.ufunc] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_ORDERED = {"maximum": of_real.maximum, "minimum": of_real.minimum}
"""What numpy leaves open, which of 0 and -0 is taken, is decided here."""
_PRED_UFUNCS: dict[str, np.ufunc] = {
    "add": np.logical_or,
    "multiply": np.logical_and,
    "maximum": np.logical_or,
    "minimum": np.logical_and,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


@dataclass(frozen=True, slots=True)
class Fold:
    """A combiner of `count` accumulators with `count` elements; see the module docstring."""

    count: int
    types: tuple[DType, ...]
    """The element type of each accumulator."""
    combine: Callable[[Arrays, Arrays], Arrays]
    """(accumulators, elements) -> accumulators, on arrays of one shape."""
    ufunc: np.ufunc | None = None
    """Folds much at once; whoever uses it orders zeros (`zeros_ordered`) afterwards."""
    opcode: str | None = None
    wide: np.dtype[Any] | None = None
    """The type a known combiner computes in."""

    def enter(self, values: Arrays) -> Arrays:
        if self.wide is None:
            return tuple(_of_type(v, t) for v, t in zip(values, self.types))
        value = values[0]
        if self.types[0].is_sub_byte and self.types[0].is_integral:
            value = widened(value, self.types[0])
        return (value.astype(self.wide, copy=False),)

    def leave(self, values: Arrays, types: tuple[DType, ...]) -> Arrays:
        return tuple(narrowed(v, t) for v, t in zip(values, types))

    def identity(self) -> Any:
        """What changes nothing when combined, or None where that is not known."""
        if self.wide is None or self.wide.isbuiltin != 1:
            return None
        if self.wide.kind == "b":
            return self.opcode in ("multiply", "minimum", "and")
        if self.opcode in ("maximum", "minimum"):
            low, high = _extremes(self.wide)
            return low if self.opcode == "maximum" else high
        return {"add": 0, "multiply": 1, "and": -1, "or": 0, "xor": 0}[self.opcode or ""]


def _extremes(wide: np.dtype[Any]) -> tuple[Any, Any]:
    if wide.kind == "f":
        return -np.inf, np.inf
    if wide.kind == "c":
        return complex(-np.inf, -np.inf), complex(np.inf, np.inf)
    limits = np.iinfo(wide)
    return limits.min, limits.max


def _of_type(value: Array, dtype: DType) -> Array:
    return value if value.dtype == dtype.numpy else value.astype(dtype.numpy)


def fold_of(context: EvalContext, computation: Computation, count: int) -> Fold:
    """The fold of a combiner with 2 * count scalar parameters, accumulators first."""
    types = tuple(p.shape.dtype for p in computation.parameters[:count])
    opcode = context.known_combiner(computation) if count == 1 else None
    same = opcode is not None and computation.parameters[1].shape.dtype is types[0]
    if opcode is not None and same and not (types[0].is_complex and opcode[:2] in ("ma", "mi")):
        return known_fold(types[0], opcode)

    element_types = tuple(p.shape.dtype for p in computation.parameters[count:])

    def combine(accumulators: Arrays, elements: Arrays) -> Arrays:
        elements = tuple(_of_type(x, t) for x, t in zip(elements, element_types))
        result = context.vectorised(computation, *accumulators, *elements)
        return result if isinstance(result, tuple) else (result,)

    return Fold(count, types, combine)


def known_fold(dtype: DType, opcode: str) -> Fold:
    """The fold of one of the known combiners on a type."""
    ufunc = (_PRED_UFUNCS if dtype.is_pred else _UFUNCS)[opcode]
    wide = _wide(dtype, opcode)
    one: Callable[..., Any] = (dtype.is_floating and _ORDERED.get(opcode)) or ufunc
    return Fold(1, (dtype,), lambda a, x: (one(a[0], x[0]),), ufunc, opcode, wide)


def _wide(dtype: DType, opcode: str) -> np.dtype[Any]:
    if opcode == "add" and dtype.name in ("f32", "c64"):
        return np.dtype(np.float64 if dtype.is_floating else np.complex128)
    if dtype.is_floating and dtype.bits == 16:
        return np.dtype(np.float32)
    if dtype.is_sub_byte and dtype.is_integral:
        return np.dtype(np.int32)
    return dtype.numpy


def result_types(shape: Any) -> tuple[DType, ...]:
    """The element types of an array shape or of a tuple of arrays."""
    return tuple(s.dtype for s in shape.elements) if shape.is_tuple else (shape.dtype,)


def as_result(shape: Any, arrays: Arrays) -> Any:
    """A tuple where the shape is one, else the one array."""
    return arrays if shape.is_tuple else arrays[0]


SEQUENTIAL_STEPS = 2048
"""More steps than this on small arrays are folded as a tree; fewer strictly left to right."""


def fold_rows(fold: Fold, rows: Arrays, start: Arrays) -> Arrays:
    """Fold arrays [steps, width] along their first dimension onto `start` [width].

    Left to right. Very long and narrow folds combine neighbours pairwise instead, which keeps the
    order of elements and relies on the combiner being associative, as HLO demands of it.
    """
    steps, width = rows[0].shape
    if steps > SEQUENTIAL_STEPS and width < 4096:
        while steps > 1:
            even = steps // 2 * 2
            left = tuple(x[0:even:2] for x in rows)
            joined = fold.combine(left, tuple(x[1:even:2] for x in rows))
            rows = tuple(
                np.concatenate([a, x[even:].astype(a.dtype, copy=False)])
                for a, x in zip(joined, rows)
            )
            steps = rows[0].shape[0]
    for k in range(steps):
        start = fold.combine(start, tuple(x[k] for x in rows))
    return start
