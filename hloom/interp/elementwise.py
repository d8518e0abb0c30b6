"""Operations on each element alone: arithmetic, functions, bits. Comparisons, selections and
conversions are in `elementwise_compare` and `elementwise_convert`.

How a type is computed with is in `elementwise_number`, the formulas in `elementwise_real`,
`elementwise_complex` and `elementwise_integer`. Meanings look at the arrays, not at the
instruction's dimensions, so that a scalar instruction also evaluates a whole batch
(`EvalContext.vectorised`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp import elementwise_complex as of_complex
from hloom.interp import elementwise_integer as of_integer
from hloom.interp import elementwise_real as of_real
from hloom.interp.context import EvalContext
from hloom.interp.elementwise_number import Array, narrowed, widened
from hloom.interp.registry import MEANING
from hloom.ir.instruction import Instruction
from hloom.types.dtype import DType

_PRED_UNARY: dict[str, Callable[..., Any]] = {"not": np.logical_not}
_PRED_BINARY: dict[str, Callable[..., Any]] = {
    "add": np.logical_or,
    "and": np.logical_and,
    "maximum": np.logical_or,
    "minimum": np.logical_and,
    "multiply": np.logical_and,
    "or": np.logical_or,
    "subtract": np.logical_xor,
    "xor": np.logical_xor,
}
_INTEGER_UNARY: dict[str, Callable[[Array, DType], Any]] = {
    "abs": of_integer.absolute,
    "count-leading-zeros": of_integer.count_leading_zeros,
    "negate": lambda x, dtype: np.negative(x),
    "not": lambda x, dtype: np.invert(x),
    "popcnt": of_integer.population_count,
    "sign": lambda x, dtype: np.sign(x),
}
_INTEGER_BINARY: dict[str, Callable[[Array, Array, DType], Any]] = {
    "add": lambda x, y, dtype: np.add(x, y),
    "and": lambda x, y, dtype: np.bitwise_and(x, y),
    "divide": of_integer.divide,
    "maximum": lambda x, y, dtype: np.maximum(x, y),
    "minimum": lambda x, y, dtype: np.minimum(x, y),
    "mulhi": of_integer.multiply_high,
    "multiply": lambda x, y, dtype: np.multiply(x, y),
    "or": lambda x, y, dtype: np.bitwise_or(x, y),
    "power": of_integer.power,
    "remainder": of_integer.remainder,
    "shift-left": of_integer.shift_left,
    "shift-right-arithmetic": of_integer.shift_right_arithmetic,
    "shift-right-logical": of_integer.shift_right_logical,
    "subtract": lambda x, y, dtype: np.subtract(x, y),
    "xor": lambda x, y, dtype: np.bitwise_xor(x, y),
}
_EXACT_COMPLEX = frozenset(["add", "multiply", "negate", "subtract"])
"""Computed in c64 itself, each step correctly rounded."""

UNARY = tuple(sorted({*_INTEGER_UNARY, *of_real.EXACT_UNARY, *of_real.ROUNDED_UNARY} - {"abs"}))
BINARY = tuple(sorted({*_INTEGER_BINARY, *of_real.ROUNDED_BINARY}))


def no_meaning(i: Instruction, dtype: DType) -> EvalError:
    """The error for an operation on a type it does not admit."""
    return EvalError(f"{i.opcode} is not defined for {dtype} operands", instruction=f"%{i.name}")


def _apply(
    i: Instruction,
    dtype: DType,
    values: tuple[Array, ...],
    pred: dict[str, Callable[..., Any]],
    integer: dict[str, Callable[..., Any]],
    exact: dict[str, Callable[..., Any]],
    rounded: dict[str, Callable[..., Any]],
    complex_: dict[str, Callable[..., Any]],
) -> Array:
    """The value of an operation whose operands and result have one type.

    Only floats may be mixed, which some programs do with bf16 and f32: each is widened by itself
    and the result rounds to the instruction's type.
    """
    opcode = i.opcode
    if dtype.is_floating:
        result = i.shape.dtype if i.shape.dtype.is_floating else dtype
        if function := exact.get(opcode):
            wide = (widened(v, x.shape.dtype) for v, x in zip(values, i.operands))
            return narrowed(function(*wide), result)
        if function := rounded.get(opcode):
            double = np.asarray(function(*(v.astype(np.float64) for v in values)))
            return narrowed(double.astype(np.float32) if result.bits < 32 else double, result)
    elif dtype.is_integral:
        if function := integer.get(opcode):
            return narrowed(function(*(widened(v, dtype) for v in values), dtype), dtype)
    elif dtype.is_pred:
        if function := pred.get(opcode):
            return np.asarray(function(*values))
    elif function := complex_.get(opcode):
        if opcode not in _EXACT_COMPLEX:
            values = tuple(v.astype(np.complex128) for v in values)
        return narrowed(function(*values), dtype)
    raise no_meaning(i, dtype)


@MEANING.of(*UNARY)
def unary(i: Instruction, context: EvalContext, x: Array) -> Array:
    """One operand, result of its type."""
    return _apply(
        i,
        i.operands[0].shape.dtype,
        (x,),
        _PRED_UNARY,
        _INTEGER_UNARY,
        of_real.EXACT_UNARY,
        of_real.ROUNDED_UNARY,
        of_complex.COMPLEX_UNARY,
    )


@MEANING.of(*BINARY)
def binary(i: Instruction, context: EvalContext, x: Array, y: Array) -> Array:
    """Two operands of one type, result of that type."""
    return _apply(
        i,
        i.operands[0].shape.dtype,
        (x, y),
        _PRED_BINARY,
        _INTEGER_BINARY,
        of_real.EXACT_BINARY,
        of_real.ROUNDED_BINARY,
        of_complex.COMPLEX_BINARY,
    )


@MEANING.of("abs")
def absolute(i: Instruction, context: EvalContext, x: Array) -> Array:
    """|x|; of a complex type's component type, without overflow in between."""
    dtype = i.operands[0].shape.dtype
    if dtype.is_complex:
        return narrowed(of_complex.magnitude(x.astype(np.complex128)), dtype.component)
    return unary(i, context, x)


@MEANING.of("real")
def real(i: Instruction, context: EvalContext, x: Array) -> Array:
    """The real part; a real x itself."""
    return np.real(x).copy() if i.operands[0].shape.dtype.is_complex else x


@MEANING.of("imag")
def imaginary(i: Instruction, context: EvalContext, x: Array) -> Array:
    """The imaginary part; 0 of a real x."""
    return np.imag(x).copy() if i.operands[0].shape.dtype.is_complex else np.zeros_like(x)


@MEANING.of("complex")
def complex_(i: Instruction, context: EvalContext, x: Array, y: Array) -> Array:
    """x + iy."""
    return of_complex.joined(x, y)


@MEANING.of("is-finite")
def is_finite(i: Instruction, context: EvalContext, x: Array) -> Array:
    """Whether x is neither infinite nor NaN."""
    dtype = i.operands[0].shape.dtype
    if not dtype.is_floating:
        raise no_meaning(i, dtype)
    return np.asarray(np.isfinite(widened(x, dtype)))
