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


def as_value(argument: Any, shape: Shape, what: str) -> EvalValue:
    """A literal, array, number, token or nested tuple as a value of this shape."""
    if isinstance(argument, Literal):
        argument = from_literal(argument)
    if shape.is_tuple:
        if not isinstance(argument, tuple | list):
            raise EvalError(
                f"{what} has shape {shape.text_without_layout}, but {described(argument)} was given"
            )
        if len(argument) != len(shape.elements):
            raise EvalError(
                f"{what} is a tuple of {len(shape.elements)}, but one of {len(argument)} was given"
            )
        return tuple(
            as_value(x, part, f"{what} element {k}")
            for k, (x, part) in enumerate(zip(argument, shape.elements))
        )
    if shape.is_token:
        if argument is not TOKEN and argument is not None:
            raise EvalError(f"{what} is a token, but {described(argument)} was given")
        return TOKEN
    if shape.is_opaque:
        return argument
    return _array(argument, shape.elements[0] if shape.is_buffer else shape, what)


def _array(argument: Any, shape: Shape, what: str) -> np.ndarray:
    if isinstance(argument, tuple | dict | str | bytes) or argument is TOKEN or argument is None:
        raise EvalError(
            f"{what} has shape {shape.text_without_layout}, but {described(argument)} was given"
        )
    if isinstance(argument, float | complex | list) and _loses(argument, shape):
        raise EvalError(f"{what} is {argument!r}, which {shape.dtype.name} does not hold")
    try:
        if isinstance(argument, bool | int | float | complex | list):
            array = Literal.of(
                np.array(argument) if argument == [] else argument, shape.dtype
            ).array
        else:
            array = np.asarray(argument)
    except (UsageError, ValueError, TypeError, OverflowError) as error:
        raise EvalError(f"{what} cannot be made {shape}: {error}") from error
    if not array.dtype.isnative:
        raise EvalError(f"{what} has the byte order of another machine")
    if array.dtype != shape.dtype.numpy or not fits(array.shape, shape):
        raise EvalError(
            f"{what} has shape {shape.text_without_layout}, but {described(array)} was given"
        )
    return array


def _loses(numbers: Any, shape: Shape) -> bool:
    """Whether numbers of Python are fractions, or complex, where the type has none of those."""
    try:
        kind = np.asarray(numbers).dtype.kind
    except (ValueError, OverflowError):
        return False  # which is told better where they are made an array
    if kind == "c":
        return not shape.dtype.is_complex
    return kind == "f" and numbers != [] and not (shape.dtype.is_floating or shape.dtype.is_complex)
