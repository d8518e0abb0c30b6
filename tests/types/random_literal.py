"""Random values of any shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.types.convert import converted
from hloom.types.dtype import F64, S64, U64, DType
from hloom.types.limits import integer_range
from hloom.types.literal import TOKEN_LITERAL, Literal, built
from hloom.types.shape import Shape


def random_literal(
    shape: Shape,
    random: np.random.Generator,
    low: float | None = None,
    high: float | None = None,
) -> Literal:
    """A literal of the shape with values drawn evenly from [low, high] as far as the type goes.

    Without bounds floats are normal with deviation 1 (for `f8e8m0fnu` powers of two near 1) and
    integers lie in -8..8 within their type. Tuples are drawn element by element; tokens are
    tokens. Dynamic dimensions have the size of their bound.
    """

    def leaf(part: Shape) -> Literal:
        return TOKEN_LITERAL if part.is_token else _random_array(part, random, low, high)

    return built(shape, leaf)


def _random_array(
    shape: Shape, random: np.random.Generator, low: float | None, high: float | None
) -> Literal:
    if not shape.is_array or shape.is_unbounded:
        raise UsageError(f"no random value of {shape.text}")
    element = shape.dtype
    if element.is_pred or element.is_integral:
        return Literal(shape, _random_integers(element, shape.dims, random, low, high))
    parts = [_random_floats(element, shape.dims, random, low, high)]
    if element.is_complex:
        parts.append(_random_floats(element, shape.dims, random, low, high))
        return Literal(shape, np.asarray(parts[0] + 1j * parts[1]).astype(element.numpy))
    return Literal(shape, converted(parts[0], F64, element))


def _random_integers(
    element: DType,
    dims: tuple[int, ...],
    random: np.random.Generator,
    low: float | None,
    high: float | None,
) -> np.ndarray[Any, Any]:
    least, most = integer_range(element)
    first = max(least, -8 if low is None else int(np.ceil(low)))
    last = min(most, 8 if high is None else int(np.floor(high)))
    if first > last:
        raise UsageError(f"no value of {element.name} lies between {low} and {high}")
    wide = U64 if element.is_unsigned_int else S64
    values = random.integers(first, last, dims, wide.numpy, endpoint=True)
    return converted(np.asarray(values), wide, element)


def _random_floats(
    element: DType,
    dims: tuple[int, ...],
    random: np.random.Generator,
    low: float | None,
    high: float | None,
) -> np.ndarray[Any, Any]:
    if low is not None or high is not None:
        least = -1.0 if low is None else low
        most = max(1.0, least + 1.0) if high is None else high
        return np.asarray(random.uniform(least, most, dims))
    values = np.asarray(random.standard_normal(dims))
    return values if element.is_signed else np.exp2(np.round(values))
