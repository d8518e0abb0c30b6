"""Values for constants whose text is `{...}`."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.types import convert
from hloom.types.dtype import U8
from hloom.types.shape import Shape

Array = np.ndarray[Any, Any]


def made_up(shape_: Shape) -> Array:
    """Values for an elided constant: the same for the same shape, small and mixed.

    Floats lie in [-1, 1), integers in 0..9 (less for narrow types), so that they can serve as
    indices and sizes.
    """
    try:
        return _made_up(shape_)
    except (MemoryError, ValueError) as error:
        raise UsageError(
            f"no values can be made up for an elided constant of {shape_.text}: {error}"
        ) from error


def _made_up(shape_: Shape) -> Array:
    element = shape_.dtype
    dims = tuple(max(size, 0) for size in shape_.dims)
    random = np.random.Generator(np.random.PCG64(crc32(shape_.text_without_layout.encode())))
    if element.is_pred:
        return random.integers(0, 2, dims, np.uint8).astype(np.bool_)
    if element.is_integral:
        highest = min(9, (1 << (element.bits - element.is_signed_int)) - 1)
        values = random.integers(0, max(highest, 1), dims, np.uint8, endpoint=True)
        return convert.converted(np.asarray(values), U8, element)  # in s1, 1 is -1
    values = np.asarray(random.random(dims, np.float32) * 2 - 1)
    if not element.is_signed:
        values = np.abs(values) + np.float32(0.125)
    if element.is_complex:
        return np.asarray(values + 1j * (random.random(dims, np.float32) * 2 - 1)).astype(
            element.numpy
        )
    return values.astype(element.numpy)
