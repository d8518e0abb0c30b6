"""How the elements of each type are computed with in numpy.

Numpy computes in pred, the integers of 8 bits and more, f32, f64, c64 and c128. Everything else
is carried there and back: a narrower float is computed in f32 and rounded to its type after each
operation, as hardware without it would (f16 and bf16 sums, products, quotients and roots are
then correctly rounded, because f32 has more than twice their precision); a sub-byte integer is
computed in 32 bits and wrapped.
"""

from typing import Any

import numpy as np

from hloom.types.dtype import DType

Array = np.ndarray[Any, Any]

_UNSIGNED_OF_SIZE = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def widened(x: Array, dtype: DType) -> Array:
    """x of type `dtype` in the type that numpy computes it in; the values are the same."""
    if dtype.is_floating and dtype.bits < 32:
        return x.astype(np.float32)
    if dtype.is_sub_byte:
        return x.astype(np.int8 if dtype.is_signed_int else np.uint8).astype(np.int32)
    return x


def narrowed(value: Any, dtype: DType) -> Array:
    """`value`, computed wide, as an array of `dtype`: floats round, integers wrap."""
    if dtype.is_sub_byte and dtype.is_integral:
        low = np.asarray(value).astype(np.int64) & ((1 << dtype.bits) - 1)
        if dtype.is_signed_int:
            half = 1 << (dtype.bits - 1)
            low = (low ^ half) - half
        return np.asarray(low, np.int8).astype(dtype.numpy)  # an array also where it is one number
    return np.asarray(value).astype(dtype.numpy, copy=False)


def bits_of(x: Array, dtype: DType) -> Array:
    """The bits of each element as an unsigned integer of its width (8 to 64), high bits zero."""
    if dtype.is_sub_byte and dtype.is_integral:
        return x.astype(np.int8).view(np.uint8) & np.uint8((1 << dtype.bits) - 1)
    unsigned = _UNSIGNED_OF_SIZE[x.dtype.itemsize]
    return np.ascontiguousarray(x).view(unsigned).reshape(x.shape)


def from_bits(bits: Array, dtype: DType) -> Array:
    """The elements of type `dtype` (up to 64 bits) whose bits these unsigned integers hold."""
    if dtype.is_sub_byte and dtype.is_integral:
        return narrowed(bits, dtype)
    if dtype.is_pred:
        return bits != 0
    unsigned = _UNSIGNED_OF_SIZE[dtype.numpy.itemsize]
    words = np.ascontiguousarray(bits.astype(unsigned, copy=False))
    return words.view(dtype.numpy).reshape(bits.shape)
