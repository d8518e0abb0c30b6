"""Batch normalisation: training, inference, gradients.

Formulas of Ioffe and Szegedy (2015), with the biased variance. Computed in f64 for f64 and f32
operands, in f32 for narrower ones, and rounded once at the end.
"""

from __future__ import annotations

import numpy as np

from hloom.interp.frame import Frame
from hloom.interp.reduce_fold import Array, Arrays
from hloom.interp.registry import MEANING
from hloom.interp.values import Value
from hloom.ir.instruction import Instruction


class _Features:
    """How per-feature vectors and the array fit together."""

    __slots__ = ("axes", "line")

    def __init__(self, i: Instruction, x: Array) -> None:
        feature = i.attrs.feature_index
        self.axes = tuple(k for k in range(x.ndim) if k != feature)
        self.line = tuple(-1 if k == feature else 1 for k in range(x.ndim))

    def spread(self, vector: Array) -> Array:
        return vector.reshape(self.line)


def _wide(x: Array) -> Array:
    return x.astype(np.float64 if x.dtype in (np.float32, np.float64) else np.float32)


def _rounded(shape, arrays: Arrays) -> Value:
    parts = shape.elements if shape.is_tuple else (shape,)
    values = tuple(a.astype(s.dtype.numpy) for a, s in zip(arrays, parts))
    return values if shape.is_tuple else values[0]


def _epsilon(i: Instruction) -> np.float32:
    """The attribute is a 32-bit float, whatever the type of the operand."""
    return np.float32(i.attrs.epsilon)


@MEANING.of("batch-norm-inference")
def batch_norm_inference(
    i: Instruction,
    frame: Frame,
    x: Array,
    scale: Array,
    offset: Array,
    mean: Array,
    variance: Array,
) -> Value:
    f = _Features(i, x)
    wide, scale, offset, mean, variance = map(_wide, (x, scale, offset, mean, variance))
    factor = f.spread(scale / np.sqrt(variance + _epsilon(i)))
    return _rounded(i.shape, ((wide - f.spread(mean)) * factor + f.spread(offset),))


@MEANING.of("batch-norm-training")
def batch_norm_training(
    i: Instruction, frame: Frame, x: Array, scale: Array, offset: Array
) -> Value:
    f = _Features(i, x)
    wide, scale, offset = map(_wide, (x, scale, offset))
    mean = wide.mean(axis=f.axes)
    centred = wide - f.spread(mean)
    variance = np.square(centred).mean(axis=f.axes)
    factor = f.spread(scale / np.sqrt(variance + _epsilon(i)))
    return _rounded(i.shape, (centred * factor + f.spread(offset), mean, variance))


@MEANING.of("batch-norm-grad")
def batch_norm_grad(
    i: Instruction,
    frame: Frame,
    x: Array,
    scale: Array,
    mean: Array,
    variance: Array,
    grad_output: Array,
) -> Value:
    f = _Features(i, x)
    wide, scale, mean, variance, grad = map(_wide, (x, scale, mean, variance, grad_output))
    inverse = 1 / np.sqrt(variance + _epsilon(i))
    normalised = (wide - f.spread(mean)) * f.spread(inverse)
    grad_offset = grad.sum(axis=f.axes)
    grad_scale = (grad * normalised).sum(axis=f.axes)
    count = max(1, x.size // max(1, scale.size))
    inner = grad - f.spread(grad_offset / count) - normalised * f.spread(grad_scale / count)
    return _rounded(i.shape, (f.spread(scale * inverse) * inner, grad_scale, grad_offset))
