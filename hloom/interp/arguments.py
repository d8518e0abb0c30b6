"""What callers hand in, checked against the parameters and made into values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError, UsageError
from hloom.interp.values import TOKEN, EvalValue, described, fits, from_literal
from hloom.ir.computation import Computation
from hloom.types.literal import Literal
from hloom.types.shape import Shape


def checked_arguments(
    computation: Computation, arguments: Sequence[Any], module_name: str | None
) -> tuple[EvalValue, ...]:
    """One value per parameter.

    `EvalError` states the expected and the given number, or the parameter and both shapes.
    """
    parameters = computation.parameters
    if len(arguments) != len(parameters):
        who = f"module {module_name}" if module_name else f"computation %{computation.name}"
        raise EvalError(
            f"{who} takes {len(parameters)} argument{'s' * (len(parameters) != 1)}, "
            f"but {len(arguments)} {'was' if len(arguments) == 1 else 'were'} given"
        )
    return tuple(
        as_value(argument, p.shape, f"argument {k} (%{p.name})")
        for k, (p, argument) in enumerate(zip(parameters, arguments))
    )


def as_value(given: Any, shape: Shape, what: str) -> EvalValue:
    """A literal, array, number, token or nested tuple as a value of this shape."""
    if isinstance(given, Literal):
        given = from_literal(given)
    if shape.is_tuple:
        if not isinstance(given, tuple | list):
            raise EvalError(
                f"{what} has shape {shape.text_without_layout}, but {described(given)} was given"
            )
        if len(given) != len(shape.elements):
            raise EvalError(
                f"{what} is a tuple of {len(shape.elements)}, but one of {len(given)} was given"
            )
        return tuple(
            as_value(x, part, f"{what} element {k}")
            for k, (x, part) in enumerate(zip(given, shape.elements))
        )
    if shape.is_token:
        if given is not TOKEN and given is not None:
            raise EvalError(f"{what} is a token, but {described(given)} was given")
        return TOKEN
    if shape.is_opaque:
        return given
    return _array(given, shape.elements[0] if shape.is_buffer else shape, what)


def _array(given: Any, shape: Shape, what: str) -> np.ndarray:
    if isinstance(given, tuple | dict | str | bytes) or given is TOKEN or given is None:
        raise EvalError(
            f"{what} has shape {shape.text_without_layout}, but {described(given)} was given"
        )
    try:
        if isinstance(given, bool | int | float | complex | list):
            array = Literal.of(np.array(given) if given == [] else given, shape.dtype).array
        else:
            array = np.asarray(given)
    except (UsageError, ValueError, TypeError, OverflowError) as error:
        raise EvalError(f"{what} cannot be made {shape}: {error}") from error
    if array.dtype != shape.dtype.numpy or not fits(array.shape, shape):
        raise EvalError(
            f"{what} has shape {shape.text_without_layout}, but {described(array)} was given"
        )
    return array
