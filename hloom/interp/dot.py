"""Contractions: dot, scaled-dot, ragged-dot."""

import math

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.context import EvalContext
from hloom.interp.dot_number import Types, matrix_product
from hloom.interp.elementwise_number import Array
from hloom.interp.registry import MEANING
from hloom.ir.instruction import Instruction
from hloom.types.convert import converted
from hloom.types.dtype import BF16, F32, F64, S64, DType

Dims = tuple[int, ...]


def contracted(
    x: Array,
    y: Array,
    batch: tuple[Dims, Dims],
    contracting: tuple[Dims, Dims],
    types: Types,
    algorithm: str | None = None,
) -> Array:
    """The general dot: out[batch, x's free dimensions, y's free dimensions].

    Both operands are brought to one batch of matrices, [batch, free, contracting] and
    [batch, contracting, free], by a transposition and a reshape. Where a size of run time meets
    another, what is beyond the smaller one is nothing, and does not count.
    """
    x, y = _met(x, y, contracting)
    x_free = tuple(d for d in range(x.ndim) if d not in batch[0] and d not in contracting[0])
    y_free = tuple(d for d in range(y.ndim) if d not in batch[1] and d not in contracting[1])
    batch_sizes = tuple(x.shape[d] for d in batch[0])
    x_sizes, y_sizes = tuple(x.shape[d] for d in x_free), tuple(y.shape[d] for d in y_free)
    b, m, n = math.prod(batch_sizes), math.prod(x_sizes), math.prod(y_sizes)
    k = math.prod(x.shape[d] for d in contracting[0])
    left = x.transpose(*batch[0], *x_free, *contracting[0]).reshape(b, m, k)
    right = y.transpose(*batch[1], *contracting[1], *y_free).reshape(b, k, n)
    result = matrix_product(left, right, types, algorithm)
    return result.reshape((*batch_sizes, *x_sizes, *y_sizes))


def _met(x: Array, y: Array, pairs: tuple[Dims, Dims]) -> tuple[Array, Array]:
    """Both cut to the sizes that they have in common along these dimensions."""
    for d, e in zip(*pairs, strict=True):
        n = min(x.shape[d], y.shape[e])
        if x.shape[d] != y.shape[e]:
            x = x[(slice(None),) * d + (slice(n),)]
            y = y[(slice(None),) * e + (slice(n),)]
    return x, y


def _dims(i: Instruction) -> tuple[tuple[Dims, Dims], tuple[Dims, Dims]]:
    a = i.attrs
    return (
        (tuple(a.lhs_batch_dims), tuple(a.rhs_batch_dims)),
        (tuple(a.lhs_contracting_dims), tuple(a.rhs_contracting_dims)),
    )


def _types(i: Instruction) -> Types:
    return i.operands[0].shape.dtype, i.operands[1].shape.dtype, i.shape.dtype


@MEANING.of("dot")
def dot(i: Instruction, context: EvalContext, x: Array, y: Array) -> Array:
    """Sum of products over the contracting dimensions."""
    batch, contracting = _dims(i)
    return contracted(x, y, batch, contracting, _types(i), i.attrs.algorithm)


# -- scaled-dot ----------------------------------------------------------------------------


@MEANING.of("scaled-dot")
def scaled_dot(
    i: Instruction, context: EvalContext, x: Array, y: Array, x_scale: Array, y_scale: Array
) -> Array:
    """The dot of both operands times their scales, each repeated over its blocks."""
    batch, contracting = _dims(i)
    x_type, y_type, result = _types(i)
    wide = F64 if F64 in (x_type, y_type, result) else F32
    left = _scaled(i, x, x_type, x_scale, i.operands[2].shape.dtype, wide)
    right = _scaled(i, y, y_type, y_scale, i.operands[3].shape.dtype, wide)
    return contracted(left, right, batch, contracting, (wide, wide, result), i.attrs.algorithm)


def _scaled(
    i: Instruction, x: Array, dtype: DType, scale: Array, scale_type: DType, wide: DType
) -> Array:
    """x times its scale in type `wide`; `EvalError` for a rank-0 scale that is not 1."""
    values, factors = converted(x, dtype, wide), converted(scale, scale_type, wide)
    if scale.ndim == 0:
        if factors != 1:
            raise EvalError(
                f"a scale of rank 0 means unscaled and must be 1, but is {factors}",
                instruction=f"%{i.name}",
                rule="scale",
            )
        return values
    if dtype is BF16 and scale_type is BF16 and scale.size == 1:
        return values  # a dummy: nothing is scaled
    if scale.ndim != x.ndim or any(
        size == 0 or whole % size for size, whole in zip(scale.shape, x.shape)
    ):
        raise EvalError(
            f"scale of dimensions {list(scale.shape)} does not divide {list(x.shape)}",
            instruction=f"%{i.name}",
            rule="scale",
        )
    for d, (size, whole) in enumerate(zip(scale.shape, x.shape)):
        factors = np.repeat(factors, whole // size, axis=d)
    return values * factors


# -- ragged-dot ----------------------------------------------------------------------------


@MEANING.of("ragged-dot")
def ragged_dot(
    i: Instruction, context: EvalContext, x: Array, y: Array, group_sizes: Array
) -> Array:
    """A dot of which each group takes its own run of lhs' ragged dimension.

    Where the ragged dimension is free, rows of group g meet slice g of rhs and rows of no group
    are 0; where it is contracting, out[g] sums over the run of g alone; where it is a batch
    dimension, groups change nothing. The dimensions of `group_sizes` before the last are those of
    lhs that stand before the ragged one in its role (batch dimensions first); it may also be of
    rank 1, the same groups everywhere.
    """
    batch, contracting = _dims(i)
    if len(i.attrs.lhs_ragged_dims) != 1:
        raise EvalError("ragged-dot takes one ragged dimension", instruction=f"%{i.name}")
    ragged = i.attrs.lhs_ragged_dims[0]
    types = _types(i)
    group_sizes = converted(group_sizes, i.operands[2].shape.dtype, S64)
    if ragged in batch[0]:
        return contracted(x, y, batch, contracting, types)
    if ragged in contracting[0]:
        at = contracting[0].index(ragged)
        x_masks = _group_masks(x, group_sizes, ragged, (*batch[0], *contracting[0][:at]))
        y_prefix = (*batch[1], *contracting[1][:at])
        y_masks = _group_masks(y, group_sizes, contracting[1][at], y_prefix)
        parts = [
            contracted(_masked(x, x_mask), _masked(y, y_mask), batch, contracting, types)
            for x_mask, y_mask in zip(x_masks, y_masks)
        ]
        return np.stack(parts) if parts else np.zeros(i.shape.dims).astype(types[2].numpy)
    return _ragged_rows(i, x, y, group_sizes, ragged)


def _ragged_rows(i: Instruction, x: Array, y: Array, group_sizes: Array, ragged: int) -> Array:
    """The mode whose ragged dimension is a free one of lhs."""
    batch, contracting = _dims(i)
    types = _types(i)
    if len(i.attrs.rhs_group_dims) != 1:
        raise EvalError("ragged-dot takes one group dimension here", instruction=f"%{i.name}")
    group = i.attrs.rhs_group_dims[0]
    # Without the group dimension, those behind it move up by one.
    y_batch = tuple(d - (d > group) for d in batch[1])
    y_contracting = tuple(d - (d > group) for d in contracting[1])
    free = [d for d in range(x.ndim) if d not in batch[0] and d not in contracting[0]]
    axis = len(batch[0]) + free.index(ragged)
    outer = tuple(free[: free.index(ragged)])
    y_free = [d for d in range(y.ndim) if d not in (group, *batch[1], *contracting[1])]
    sizes = [x.shape[d] for d in (*batch[0], *free)] + [y.shape[d] for d in y_free]
    result = np.zeros(sizes).astype(types[2].numpy)  # zeros as rounded: f8e8m0fnu has none
    masks = _group_masks(x, group_sizes, ragged, (*batch[0], *outer))
    for g, mask in enumerate(masks):
        rows = np.flatnonzero(mask.any(axis=tuple(d for d in range(mask.ndim) if d != ragged)))
        if not rows.size:
            continue
        run = slice(int(rows[0]), int(rows[-1]) + 1)
        before = (slice(None),) * ragged
        part = contracted(
            x[(*before, run)],
            np.take(y, g, axis=group),
            (batch[0], y_batch),
            (contracting[0], y_contracting),
            types,
        )
        target = (slice(None),) * axis + (run,)
        # The mask in the result's order; it has size 1 in the contracting dimensions.
        row_mask = mask.transpose(*batch[0], *free, *contracting[0])
        row_mask = row_mask.reshape(
            row_mask.shape[: len(batch[0]) + len(free)] + (1,) * len(y_free)
        )
        result[target] = np.where(row_mask[target], part, result[target])
    return result


def _masked(x: Array, mask: Array) -> Array:
    return np.where(mask, x, np.zeros((), x.dtype))


def _group_masks(x: Array, group_sizes: Array, ragged: int, prefix: Dims) -> list[Array]:
    """For each group which positions are in its run: pred, size 1 where it does not depend."""
    ends = np.cumsum(group_sizes, axis=-1)
    starts = ends - group_sizes
    position = np.arange(x.shape[ragged]).reshape([-1 if d == ragged else 1 for d in range(x.ndim)])
    masks = []
    for g in range(group_sizes.shape[-1]):
        start, end = starts[..., g], ends[..., g]
        if start.ndim:  # spread the prefix dimensions over those of x
            order = np.argsort(prefix)
            shape = [x.shape[d] if d in prefix else 1 for d in range(x.ndim)]
            start = start.transpose(order).reshape(shape)
            end = end.transpose(order).reshape(shape)
        masks.append((start <= position) & (position < end))
    return masks
