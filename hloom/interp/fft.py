"""Fourier transforms."""

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.context import EvalContext
from hloom.interp.elementwise_number import Array
from hloom.interp.registry import MEANING
from hloom.ir.instruction import Instruction


@MEANING.of("fft")
def fft(i: Instruction, context: EvalContext, x: Array) -> Array:
    """The transform over the last len(fft_length) dimensions, forward without a factor, inverse
    divided by the number of points. RFFT keeps the n // 2 + 1 values that are not conjugates of
    others, IRFFT takes those back to n real ones. c64 and f32 are computed in double precision.
    """
    lengths = tuple(i.attrs.fft_length)
    result = i.shape.dtype.numpy
    if len(lengths) > x.ndim:
        raise EvalError(
            f"fft over {len(lengths)} dimensions of an array of {x.ndim}",
            instruction=f"%{i.name}",
        )
    axes = tuple(range(x.ndim - len(lengths), x.ndim))
    longest = i.shape.dims if i.attrs.fft_type == "IRFFT" else x.shape
    if tuple(longest[len(longest) - len(lengths) :]) != lengths:
        raise EvalError(
            f"fft_length={list(lengths)} is not the length of the data", instruction=f"%{i.name}"
        )
    if not lengths:
        return x.astype(result)
    if x.size == 0 or 0 in lengths:
        return np.zeros(i.shape.dims, result)
    wide = x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)
    match i.attrs.fft_type:
        case "FFT":
            transformed = np.fft.fftn(wide, lengths, axes)
        case "IFFT":
            transformed = np.fft.ifftn(wide, lengths, axes)
        case "RFFT":
            transformed = np.fft.rfftn(wide.real, lengths, axes)
        case _:
            transformed = np.fft.irfftn(wide, lengths, axes)
    return transformed.astype(result)
