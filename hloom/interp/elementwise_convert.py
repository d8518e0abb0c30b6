"""Changes of type and precision: convert, bitcast-convert, stochastic-convert, reduce-precision."""

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.context import EvalContext
from hloom.interp.elementwise import no_meaning
from hloom.interp.elementwise_number import Array, bits_of, from_bits, narrowed, widened
from hloom.interp.registry import MEANING
from hloom.ir.instruction import Instruction
from hloom.types.convert import converted
from hloom.types.dtype import F64, DType


@MEANING.of("convert")
def convert(i: Instruction, context: EvalContext, x: Array) -> Array:
    """x as another type; see `types/convert.py` for what rounds, saturates and wraps."""
    return converted(x, i.operands[0].shape.dtype, i.shape.dtype)


# -- bitcast-convert -----------------------------------------------------------------------


def _is_packed(dtype: DType) -> bool:
    return dtype.is_sub_byte


@MEANING.of("bitcast-convert")
def bitcast_convert(i: Instruction, context: EvalContext, x: Array) -> Array:
    """The bits of x as another type.

    To a narrower type the result has one more, minor dimension, element 0 being the low bits;
    to a wider type the minor dimension goes.
    """
    return rebit(x, i.operands[0].shape.dtype, i.shape.dtype)


def rebit(x: Array, source: DType, target: DType) -> Array:
    """`bitcast_convert` of an array; 6-bit floats only meet types of their own width."""
    if source.bits == target.bits and source.bits <= 64:
        return from_bits(bits_of(x, source), target)
    if not (_is_packed(source) or _is_packed(target)):
        return _rebyte(x, source, target)
    low = np.uint64((1 << min(source.bits, target.bits)) - 1)
    if source.bits > target.bits:
        count = source.bits // target.bits
        shifts = np.arange(count, dtype=np.uint64) * np.uint64(target.bits)
        words = bits_of(x, source).astype(np.uint64)[..., None]
        return from_bits((words >> shifts & low).astype(np.uint8), target)
    count = target.bits // source.bits
    shifts = np.arange(count, dtype=np.uint64) * np.uint64(source.bits)
    words = (bits_of(x, source).astype(np.uint64) & low) << shifts
    return from_bits(np.asarray(np.bitwise_or.reduce(words, axis=-1)), target)


def _rebyte(x: Array, source: DType, target: DType) -> Array:
    """Types of whole bytes: numpy's own view of little-endian memory."""
    data = np.ascontiguousarray(x).tobytes()
    elements = np.frombuffer(data, np.uint8 if target.is_pred else target.numpy)
    if source.bits < target.bits:
        dimensions = x.shape[:-1]
    elif source.bits > target.bits:
        dimensions = (*x.shape, source.bits // target.bits)
    else:
        dimensions = x.shape
    elements = elements.reshape(dimensions)
    return elements != 0 if target.is_pred else elements


# -- reduce-precision ----------------------------------------------------------------------


@MEANING.of("reduce-precision")
def reduce_precision(i: Instruction, context: EvalContext, x: Array) -> Array:
    """x rounded to a float of these many exponent and mantissa bits, kept in x's type."""
    dtype = i.operands[0].shape.dtype
    if not dtype.is_floating:
        raise no_meaning(i, dtype)
    if i.attrs.exponent_bits < 1 or i.attrs.mantissa_bits < 0:
        raise EvalError(
            "reduce-precision needs at least 1 exponent bit and 0 mantissa bits",
            instruction=f"%{i.name}",
        )
    if dtype.bits < 16:
        result = reduced(x.astype(np.float32), 8, 23, i.attrs.exponent_bits, i.attrs.mantissa_bits)
        return narrowed(result, dtype)
    return reduced(
        x, dtype.exponent_bits, dtype.mantissa_bits, i.attrs.exponent_bits, i.attrs.mantissa_bits
    )


def reduced(x: Array, exponents: int, mantissas: int, to_exponents: int, to_mantissas: int):
    """Round to nearest even on the bits; too large becomes infinite, and everything below the
    smallest normal number of the target becomes a zero (no denormals), keeping its sign."""
    width = 1 + exponents + mantissas
    bits = np.ascontiguousarray(x).view(f"u{width // 8}").reshape(x.shape)
    word = bits.dtype.type
    sign_bit, one = word(1 << (width - 1)), word(1)
    infinity = word(((1 << exponents) - 1) << mantissas)
    magnitude = bits & ~sign_bit
    dropped = mantissas - to_mantissas
    rounded = magnitude
    if dropped > 0:
        half = word((1 << (dropped - 1)) - 1)
        odd = (magnitude >> word(dropped)) & one
        rounded = (magnitude + half + odd) & ~word((1 << dropped) - 1)
    if to_exponents < exponents:
        bias, to_bias = (1 << (exponents - 1)) - 1, (1 << (to_exponents - 1)) - 1
        exponent = rounded >> word(mantissas)
        rounded = np.where(exponent > word(bias + to_bias), infinity, rounded)
        rounded = np.where(exponent <= word(bias - to_bias), word(0), rounded)
    rounded = np.where(magnitude > infinity, bits, rounded | (bits & sign_bit))
    return np.asarray(rounded).view(x.dtype).reshape(x.shape)


# -- stochastic-convert --------------------------------------------------------------------


@MEANING.of("stochastic-convert")
def stochastic_convert(i: Instruction, context: EvalContext, x: Array, random: Array) -> Array:
    """x as a type with fewer values: away from zero where the random number, read as a fraction
    of its range, is below what was cut off, else toward zero."""
    source, target = i.operands[0].shape.dtype, i.shape.dtype
    if not source.is_floating or not (target.is_integral or target.is_floating):
        raise no_meaning(i, source)
    threshold = random.astype(np.float64) / 2.0 ** i.operands[1].shape.dtype.bits
    wide = widened(x, source).astype(np.float64)
    if target.is_integral:
        whole = np.trunc(wide)
        up = threshold < np.abs(wide - whole)
        return converted(whole + np.copysign(up * 1.0, wide), F64, target)
    below, above = _neighbours(wide, target)
    gap = np.abs(above - below)
    fraction = np.where(gap > 0, np.abs(wide - below) / np.where(gap > 0, gap, 1.0), 0.0)
    chosen = np.where(threshold < fraction, above, below)
    return converted(np.where(np.isfinite(wide), chosen, wide), F64, target)


def _neighbours(x: Array, target: DType) -> tuple[Array, Array]:
    """For each finite x the values of `target` next to it: toward zero, and away from it."""
    nearest = widened(converted(x, F64, target), target).astype(np.float64)
    smallest = 1 - target.exponent_bias
    _, exponent = np.frexp(np.where(x == 0, 1.0, x))
    exponent = np.maximum(exponent - 1, smallest) - target.mantissa_bits
    step = np.ldexp(1.0, exponent)
    below = np.copysign(np.floor(np.abs(x) / step) * step, x)
    above = below + np.copysign(step, x)
    exact = nearest == x
    return np.where(exact, x, below), np.where(exact, x, above)
