"""What the interpreter computes with, and its way from and to literals.

A *value* is one of:

* an array: `np.ndarray` of `shape.dtype.numpy`, logical row-major, one item per element, types
  narrower than a byte through ml_dtypes. A dynamic dimension has its run-time size;
* a tuple: a Python `tuple` of values;
* a token: `TOKEN`.

A buffer (`b(f32[4])`) is the array it holds. Opaque values are whatever a custom call returned.
Nobody writes into a value he was given.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hloom.base.diagnostics import EvalError, UsageError
from hloom.types.aligned import aligned_copy
from hloom.types.dtype import from_numpy
from hloom.types.literal import Literal
from hloom.types.shape import UNBOUNDED, Shape
from hloom.types.sizes import unpacked_bytes

if TYPE_CHECKING:
    from hloom.ir.instruction import Instruction

EvalValue = Any
"""An array, a tuple of values, or `TOKEN`."""


class _Token:
    """The one value of type token."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "TOKEN"

    def __copy__(self) -> _Token:
        return self

    def __deepcopy__(self, memo: object) -> _Token:
        return self


TOKEN: Final = _Token()

MOST_LEAVES: Final = 1 << 20
"""Wider tuples (nested ones grow without bound) are not evaluated."""
MORE_MEMORY: Final = "raise EvalOptions.memory_limit_bytes if the machine has them"


@contextmanager
def nesting_limit() -> Iterator[None]:
    """Tuples nested deeper than Python's stack are an `EvalError`."""
    try:
        yield
    except RecursionError as error:
        raise EvalError("a value's tuples nest too deep to be evaluated") from error


def default_memory_limit() -> int:
    """Two thirds of the machine's memory, in bytes; the rest is for scratch and everything else."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 2 // 3


def zero(shape: Shape) -> EvalValue:
    """Zeros of a shape; dynamic dimensions have the size of their bound."""
    if shape.is_tuple:
        return tuple(zero(part) for part in shape.elements)
    if shape.is_token:
        return TOKEN
    if shape.is_buffer:
        return zero(shape.elements[0])
    if not shape.is_array or shape.is_unbounded:
        raise EvalError(f"there is no zero of shape {shape}")
    return np.zeros(shape.dims, shape.dtype.numpy)


def fits(sizes: tuple[int, ...], shape: Shape) -> bool:
    """Whether an array of these sizes can be a value of this array shape."""
    if sizes == shape.dims:
        return True
    if len(sizes) != len(shape.dims) or not shape.dynamic:
        return False
    return all(
        size == most or (dynamic and (most == UNBOUNDED or size <= most))
        for size, most, dynamic in zip(sizes, shape.dims, shape.dynamic)
    )


def value_bytes(shape: Shape) -> int:
    """Bytes of a value in numpy, where types narrower than a byte take a whole one."""
    if shape.is_array:
        return _array_bytes(shape)
    if shape.leaf_count > MOST_LEAVES:
        raise EvalError(f"a tuple of {shape.leaf_count} elements is more than can be evaluated")
    return sum(_array_bytes(leaf) for leaf in shape.leaves())


def _array_bytes(leaf: Shape) -> int:
    array = leaf.elements[0] if leaf.is_buffer else leaf
    if not array.is_array or array.is_unbounded:
        return 0
    return unpacked_bytes(array)


def check_value_size(i: Instruction, limit: int) -> None:
    """Refuse a single value larger than all memory may be, before numpy tries."""
    size = value_bytes(i.shape)
    if size > limit:
        raise EvalError(
            f"{i.shape.text_without_layout} takes {size} bytes, more than the {limit} that an "
            "evaluation may hold",
            instruction=f"%{i.name}",
            hint=MORE_MEMORY,
        )


def check_scratch(size: int, limit: int, i: Instruction) -> None:
    """Refuse what an operation would hold besides its values, before numpy tries."""
    if size > limit:
        raise EvalError(
            f"{i.opcode} takes {size} bytes of scratch memory, more than the {limit} that an "
            "evaluation may hold",
            instruction=f"%{i.name}",
            hint=MORE_MEMORY,
        )


def from_literal(literal: Literal) -> EvalValue:
    """The value of a literal; its arrays are read-only and have their run-time sizes."""
    if literal.shape.is_tuple:
        return tuple(from_literal(part) for part in literal.elements)
    return TOKEN if literal.shape.is_token else literal.array


def to_literal(value: EvalValue, shape: Shape) -> Literal:
    """The literal of a value; `EvalError` when it is not of this shape."""
    if shape.is_tuple:
        if not isinstance(value, tuple) or len(value) != len(shape.elements):
            raise EvalError(f"the result is {described(value)}, not a tuple of shape {shape}")
        parts = [to_literal(x, part) for x, part in zip(value, shape.elements)]
        return Literal(shape, None, tuple(parts))
    if shape.is_token:
        return Literal.token()
    array_shape = shape.elements[0] if shape.is_buffer else shape
    if not isinstance(value, np.ndarray) or value.dtype != array_shape.dtype.numpy:
        raise EvalError(f"the result is {described(value)}, not {shape.text_without_layout}")
    if not fits(value.shape, array_shape):
        raise EvalError(f"the result is {described(value)}, not {shape.text_without_layout}")
    # A copy, since the value may be an argument or a view of one, which the caller may change.
    return Literal(array_shape, aligned_copy(value))


def refused(error: Exception, i: Instruction | None) -> EvalError:
    """What numpy refused (shapes that do not fit in a module nobody verified, too little memory)
    as an error of the program."""
    opcode = f"{i.opcode} " if i is not None else ""
    hint = "verify the module: an operation got values that do not fit it"
    if isinstance(error, MemoryError) or "array is too big" in str(error):
        hint = "use smaller shapes: numpy cannot hold what this operation needs"
    return EvalError(
        f"{opcode}cannot be evaluated: {type(error).__name__}: {error}",
        instruction=f"%{i.name}" if i is not None else None,
        hint=hint,
    )


def normalised(value: EvalValue, i: Instruction) -> EvalValue:
    """What numpy made a scalar of, as an array again; other things as they are."""
    if isinstance(value, np.generic) or np.isscalar(value):
        return np.asarray(value, i.shape.dtype.numpy)
    return value


def described(value: Any) -> str:
    """The shape of a value in HLO's terms where it has one, for messages."""
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if value is TOKEN:
        return "a token"
    if isinstance(value, np.ndarray):
        sizes = ",".join(map(str, value.shape))
        try:
            return f"{from_numpy(value.dtype).name}[{sizes}]"
        except UsageError:
            return f"an array of numpy type {value.dtype}"
    return f"a {type(value).__name__}"
