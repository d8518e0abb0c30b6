"""Comparisons and what is chosen by them: compare, clamp, select."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from hloom.interp import elementwise_complex as of_complex
from hloom.interp import elementwise_real as of_real
from hloom.interp.context import EvalContext
from hloom.interp.elementwise_number import Array, bits_of, widened
from hloom.interp.registry import MEANING
from hloom.ir.instruction import Instruction
from hloom.types.dtype import DType

_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "GE": operator.ge,
    "GT": operator.gt,
    "LE": operator.le,
    "LT": operator.lt,
}


def total_order(x: Array, dtype: DType) -> Array:
    """Integers that are ordered as HLO's total order of floats: -NaN < -inf < -0 < 0 < NaN.

    Sign and magnitude become two's complement, with -0 just below 0. The one NaN of a type
    without -0 sits where -0 would be and counts as above everything; f8e8m0fnu has no sign.
    """
    bits = bits_of(x, dtype)
    signed = bits.view(f"i{bits.dtype.itemsize}") if dtype.bits >= 8 else bits.astype(np.int8)
    if not dtype.is_signed:
        return bits
    sign_bit = 1 << (dtype.bits - 1)
    magnitude = signed & (sign_bit - 1)
    key = np.where(bits & bits.dtype.type(sign_bit), ~magnitude, magnitude)
    if dtype.has_nan and not dtype.has_negative_zero:
        key = np.where(bits == sign_bit, sign_bit - 1 + np.int32(1), key.astype(np.int32))
    return key


@MEANING.of("compare")
def compare(i: Instruction, context: EvalContext, x: Array, y: Array) -> Array:
    """x DIRECTION y; floats as IEEE compares them unless the type is TOTALORDER, complex numbers
    by their real parts, then by the imaginary ones."""
    dtype = i.operands[0].shape.dtype
    relation = _RELATIONS[i.attrs.direction]
    if dtype.is_complex and i.attrs.direction not in ("EQ", "NE"):
        return of_complex.in_order(i.attrs.direction, x, y)
    if dtype.is_floating and i.attrs.type == "TOTALORDER":
        return np.asarray(relation(total_order(x, dtype), total_order(y, dtype)))
    return np.asarray(relation(widened(x, dtype), widened(y, i.operands[1].shape.dtype)))


@MEANING.of("select")
def select(
    i: Instruction, context: EvalContext, predicate: Array, on_true: Array, on_false: Array
) -> Any:
    """on_true where predicate holds, else on_false; for a tuple, one of the two tuples."""
    if isinstance(on_true, tuple):
        return on_true if predicate else on_false
    return np.where(predicate, on_true, on_false)


@MEANING.of("clamp")
def clamp(i: Instruction, context: EvalContext, low: Array, x: Array, high: Array) -> Array:
    """min(max(x, low), high): high wins where it is below low; NaN anywhere gives NaN."""
    dtype = i.operands[1].shape.dtype
    shape = x.shape if x.ndim >= max(low.ndim, high.ndim) else np.broadcast(low, x, high).shape
    if dtype.is_complex:
        result = of_complex.minimum(of_complex.maximum(x, low), high)
    elif dtype.is_floating:
        wide = [widened(v, dtype) for v in (low, x, high)]
        result = of_real.minimum(of_real.maximum(wide[1], wide[0]), wide[2])
    else:
        wide = [widened(v, dtype) for v in (low, x, high)]
        result = np.minimum(np.maximum(wide[1], wide[0]), wide[2])
    return np.asarray(result).astype(x.dtype, copy=False).reshape(shape)
