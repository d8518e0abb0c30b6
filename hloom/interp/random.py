"""Random numbers: rng, rng-bit-generator, rng-get-and-update-state."""

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.context import EvalContext
from hloom.interp.elementwise_number import Array, from_bits, narrowed
from hloom.interp.random_bits import philox_bits, threefry_bits
from hloom.interp.registry import MEANING
from hloom.ir.instruction import Instruction
from hloom.types.dtype import DType

_WORDS = (1 << 64) - 1


@MEANING.of("rng-bit-generator")
def rng_bit_generator(
    i: Instruction, context: EvalContext, state: Array
) -> tuple[Array, Array] | Array:
    """(new state, bits), bit-exact with XLA's Philox (also the default) and Threefry; or the bits
    alone, where the shape is no tuple.

    A state is a 64-bit key and a counter of 64 bits, or of 128 with the low word first. Philox
    with a short state counts in the low word of a counter whose high word is the key.
    """
    words = [int(w) for w in np.ascontiguousarray(state).reshape(-1).view(np.uint64)]
    bits_shape = i.shape.elements[1] if i.shape.is_tuple else i.shape
    dtype = bits_shape.dtype
    if len(words) < 2:
        raise EvalError("a random state has at least 128 bits", instruction=f"%{i.name}")
    if dtype.is_complex or dtype.is_pred:
        raise EvalError(f"no random bits of type {dtype}", instruction=f"%{i.name}")
    key = words[0]
    if i.attrs.algorithm == "rng_three_fry":
        bits, used = threefry_bits(words[1], key, bits_shape.dims, dtype.bits)
        new = [key, (words[1] + used) & _WORDS, *words[2:]]
    else:
        counter = words[1] | ((words[2] if len(words) > 2 else key) << 64)
        bits, used = philox_bits(counter, key, bits_shape.dims, dtype.bits)
        counter += used
        new = [key, counter & _WORDS, (counter >> 64) & _WORDS][: len(words)] + words[3:]
    new_state = np.array(new, np.uint64).view(state.dtype).reshape(state.shape)
    if dtype.bits < 8:
        numbers = from_bits(bits.astype(np.uint8) & np.uint8((1 << dtype.bits) - 1), dtype)
    else:
        numbers = from_bits(bits.astype(f"u{dtype.bits // 8}"), dtype)
    return (new_state, numbers) if i.shape.is_tuple else numbers


@MEANING.of("rng-get-and-update-state")
def rng_get_and_update_state(i: Instruction, context: EvalContext) -> Array:
    """The device's 128-bit state as u64[2], low word first; then it grows by `delta`."""
    state = context.rng.state
    context.rng.state = (state + i.attrs.delta) % (1 << 128)
    return np.array([state & _WORDS, state >> 64], np.uint64).reshape(i.shape.dims)


@MEANING.of("rng")
def rng(i: Instruction, context: EvalContext, *inputs: Array) -> Array:
    """Random values from the context's generator: the same seed gives the same values.

    Uniform in [inputs[0], inputs[1]) or normal with that mean and standard deviation; inputs are
    scalars or have the result's shape.
    """
    dtype, dims, draw = i.shape.dtype, i.shape.dims, context.rng.generator
    if len(inputs) != 2:
        raise EvalError(f"rng takes 2 operands, got {len(inputs)}", instruction=f"%{i.name}")
    if i.attrs.distribution == "rng_normal":
        if not dtype.is_floating:
            raise EvalError(f"no normal distribution of {dtype}", instruction=f"%{i.name}")
        mean, deviation = (v.astype(np.float64) for v in inputs)
        return narrowed(mean + deviation * draw.standard_normal(dims), dtype)
    if i.attrs.distribution != "rng_uniform":
        raise EvalError(f"unknown distribution {i.attrs.distribution}", instruction=f"%{i.name}")
    if dtype.is_floating:
        return _uniform_floats(draw, inputs[0], inputs[1], dtype, dims)
    if dtype.is_pred:
        return np.asarray(draw.random(dims) < 0.5)
    if dtype.is_integral:
        return _uniform_integers(draw, inputs[0], inputs[1], dtype, dims)
    raise EvalError(f"no uniform distribution of {dtype}", instruction=f"%{i.name}")


def _uniform_floats(
    draw: np.random.Generator, low: Array, high: Array, dtype: DType, dims: tuple[int, ...]
) -> Array:
    """low + u * (high - low); what rounding would lift to `high` is the next value below it."""
    first, last = low.astype(np.float64), high.astype(np.float64)
    values = narrowed(first + draw.random(dims) * (last - first), dtype)
    reached = values.astype(np.float64) >= last
    return np.where(reached & (first < last), np.nextafter(high, low), values)


def _uniform_integers(
    draw: np.random.Generator, low: Array, high: Array, dtype: DType, dims: tuple[int, ...]
) -> Array:
    """Any integer from low up to but not high; low itself where there is none."""
    wide = np.uint64 if dtype.is_unsigned_int else np.int64
    first = np.broadcast_to(low.astype(np.int64).astype(wide) if dtype.bits < 64 else low, dims)
    last = np.broadcast_to(high.astype(np.int64).astype(wide) if dtype.bits < 64 else high, dims)
    empty = last <= first
    count = np.where(empty, 1, last.astype(np.uint64) - first.astype(np.uint64))
    offset = draw.integers(0, 2**64, dims, np.uint64) % count.astype(np.uint64)
    return narrowed(np.asarray((first.astype(np.uint64) + offset).astype(wide)), dtype)
