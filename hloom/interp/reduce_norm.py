"""Batch normalisation: training, inference, gradients.

Formulas of Ioffe and Szegedy (2015), with the biased variance. Computed in f64 and rounded once at
the end. The array is seen as [before, features, after] and worked on in pieces that stay in the
processor's cache, so that each formula costs a few passes over the operand and no copies of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hloom.interp.context import EvalContext
from hloom.interp.reduce_fold import Array, Arrays
from hloom.interp.registry import MEANING
from hloom.interp.values import EvalValue
from hloom.ir.instruction import Instruction

_PIECE = 1 << 18
"""Elements worked on at once: two megabytes in f64."""


class _Features:
    """An array [before, features, after], where per-feature vectors are [features, 1]."""

    __slots__ = ("count", "shape", "step")

    def __init__(self, i: Instruction, x: Array) -> None:
        feature = i.attrs.feature_index
        before, after = x.shape[:feature], x.shape[feature + 1 :]
        self.shape = (int(np.prod(before)), x.shape[feature], int(np.prod(after)))
        self.count = self.shape[0] * self.shape[2]
        self.step = max(1, _PIECE // max(1, self.shape[1] * self.shape[2]))

    def pieces(self, *arrays: Array) -> Iterator[Arrays]:
        """The same rows of each array in turn, in f64."""
        rows = [x.reshape(self.shape) for x in arrays]
        for k in range(0, self.shape[0], self.step):
            yield tuple(_wide(x[k : k + self.step]) for x in rows)

    def mean(self, term: Callable[..., Array], *arrays: Array) -> Array:
        """The mean of `term(pieces)` over all but the features, [features, 1]; NaN of nothing."""
        return self.total(term, *arrays) / np.float64(self.count)

    def total(self, term: Callable[..., Array], *arrays: Array) -> Array:
        """The sum of `term(pieces)` over all but the features, [features, 1]."""
        sums = np.zeros((self.shape[1], 1))
        for pieces in self.pieces(*arrays):
            sums += term(*pieces).sum(axis=(0, 2))[:, None]
        return sums

    def each(self, dtype: Any, value: Callable[..., Array], *arrays: Array) -> Array:
        """`value(pieces)` for all pieces, rounded to a type, in the shape of the arrays."""
        out = np.empty(self.shape, dtype)
        for k, pieces in zip(range(0, self.shape[0], self.step), self.pieces(*arrays)):
            out[k : k + self.step] = value(*pieces).astype(dtype, copy=False)
        return out.reshape(arrays[0].shape)


def _wide(x: Array) -> Array:
    return x.astype(np.float64)


def _column(vector: Array) -> Array:
    """A per-feature vector, to be met with pieces."""
    return _wide(vector).reshape(-1, 1)


def _vector(column: Array, shape: Any) -> Array:
    return column.reshape(-1).astype(shape.dtype.numpy)


def _epsilon(i: Instruction) -> np.float32:
    """The attribute is a 32-bit float, whatever the type of the operand."""
    return np.float32(i.attrs.epsilon)


@MEANING.of("batch-norm-inference")
def batch_norm_inference(
    i: Instruction,
    context: EvalContext,
    x: Array,
    scale: Array,
    offset: Array,
    mean: Array,
    variance: Array,
) -> EvalValue:
    f = _Features(i, x)
    middle, shift = _column(mean), _column(offset)
    factor = _column(scale) / np.sqrt(_column(variance) + _epsilon(i))
    return f.each(i.shape.dtype.numpy, lambda piece: (piece - middle) * factor + shift, x)


@MEANING.of("batch-norm-training")
def batch_norm_training(
    i: Instruction, context: EvalContext, x: Array, scale: Array, offset: Array
) -> EvalValue:
    f = _Features(i, x)
    mean = f.mean(lambda piece: piece, x)
    variance = f.mean(lambda piece: np.square(piece - mean), x)
    factor, shift = _column(scale) / np.sqrt(variance + _epsilon(i)), _column(offset)
    result, mean_shape, variance_shape = i.shape.elements
    out = f.each(result.dtype.numpy, lambda piece: (piece - mean) * factor + shift, x)
    return out, _vector(mean, mean_shape), _vector(variance, variance_shape)


@MEANING.of("batch-norm-grad")
def batch_norm_grad(
    i: Instruction,
    context: EvalContext,
    x: Array,
    scale: Array,
    mean: Array,
    variance: Array,
    grad_output: Array,
) -> EvalValue:
    f = _Features(i, x)
    middle, inverse = _column(mean), 1 / np.sqrt(_column(variance) + _epsilon(i))
    grad_offset = f.total(lambda grad: grad, grad_output)
    grad_scale = f.total(lambda piece, grad: (piece - middle) * grad, x, grad_output) * inverse
    count = max(1, f.count)
    factor, shift, slope = _column(scale) * inverse, grad_offset / count, grad_scale / count
    slope = slope * inverse
    result, scale_shape, offset_shape = i.shape.elements
    grad = f.each(
        result.dtype.numpy,
        lambda piece, grad: factor * (grad - shift - (piece - middle) * slope),
        x,
        grad_output,
    )
    return grad, _vector(grad_scale, scale_shape), _vector(grad_offset, offset_shape)
