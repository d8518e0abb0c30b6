"""Numbers that kernels are tried with: mostly ordinary ones, some at the edges of their type."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.interp.elementwise_number import from_bits, narrowed
from hloom.types.convert import converted
from hloom.types.dtype import F64, DType
from hloom.types.limits import integer_range

Array = np.ndarray[Any, Any]
EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, 3e38, 1e-40, 65519.0)


def drawn_array(rng: np.random.Generator, dtype: DType, size: int) -> Array:
    """A flat array: three quarters small numbers, the rest edges and random bits."""
    if dtype.is_complex:
        result = np.empty(size, dtype.numpy)
        result.real = rng.normal(size=size) * 3
        result.imag = rng.normal(size=size) * 3
        return result
    if dtype.is_pred:
        return rng.random(size) < 0.5
    wild = _random_bits(rng, dtype, size)
    if dtype.is_floating:
        usual = converted(rng.normal(size=size) * rng.choice([1, 3, 30]), F64, dtype)
        edges = converted(rng.choice(EDGES, size), F64, dtype)
    else:
        low, high = integer_range(dtype)
        usual = narrowed(rng.integers(max(low, -9), min(high, 9), size, endpoint=True), dtype)
        word = np.uint64 if dtype.is_unsigned_int else np.int64
        limits = np.array([low, high, 0, min(1, high), max(-1, low), high - 1], word)
        edges = narrowed(rng.choice(limits, size), dtype)
    kind = rng.random(size)
    result = np.where(kind < 0.75, usual, np.where(kind < 0.88, edges, wild))
    return np.ascontiguousarray(result).astype(dtype.numpy, copy=False)


def _random_bits(rng: np.random.Generator, dtype: DType, size: int) -> Array:
    word = np.dtype(f"u{dtype.size_bytes}")
    bits = rng.integers(0, 1 << min(dtype.bits, 63), size, dtype=np.uint64).astype(word)
    return from_bits(bits, dtype)


def drawn_number(rng: np.random.Generator, dtype: DType) -> Any:
    """A number that a constant of this type can hold."""
    if dtype.is_pred:
        return bool(rng.random() < 0.5)
    if dtype.is_complex:
        return complex(round(rng.normal(), 3), round(rng.normal(), 3))
    if dtype.is_floating:
        return float(rng.choice(EDGES)) if rng.random() < 0.3 else float(rng.normal() * 3)
    low, high = integer_range(dtype)
    if rng.random() < 0.3:
        return [low, high, 0][int(rng.integers(3))]
    return int(rng.integers(max(low, -9), min(high, 9) + 1))
