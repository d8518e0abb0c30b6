"""Contractions: dot, ragged-dot and scaled-dot."""

from collections.abc import Sequence
from typing import Any

from hloom.ir.infer.compare import (
    compatible_ignoring_type,
    expect_array,
    expect_dimensions,
    higher_precision,
    same_sizes,
    sizes_fit,
)
from hloom.ir.op import ShapeError
from hloom.types.dtype import BF16
from hloom.types.shape import UNBOUNDED, Shape, shape


def dot(dims: Any, lhs: Shape, rhs: Shape, rhs_group_dims: Sequence[int] = ()) -> Shape:
    """The result of a dot; `dims` is an attribute record with the four lists of dimensions.

    The element type is the more precise of the operands'; a dot may be declared with another.
    """
    expect_array(lhs, "the lhs of a dot")
    expect_array(rhs, "the rhs of a dot")
    lhs_named = dims.lhs_batch_dims + dims.lhs_contracting_dims
    rhs_named = dims.rhs_batch_dims + dims.rhs_contracting_dims
    expect_dimensions(lhs_named, lhs.rank, f"the dimension numbers of lhs {lhs.bare}", order=False)
    expect_dimensions(rhs_named, rhs.rank, f"the dimension numbers of rhs {rhs.bare}", order=False)
    pairs = (
        ("contracting", dims.lhs_contracting_dims, dims.rhs_contracting_dims),
        ("batch", dims.lhs_batch_dims, dims.rhs_batch_dims),
    )
    for what, left, right in pairs:
        if len(left) != len(right):
            raise ShapeError(f"lhs has {len(left)} {what} dimensions and rhs {len(right)}")
        for a, b in zip(left, right):
            if not sizes_fit(lhs.dims[a], rhs.dims[b]):
                raise ShapeError(
                    f"{what} dimensions differ: {a} of {lhs.bare} and {b} of {rhs.bare}"
                )
    kept_dims = [(lhs, d) for d in dims.lhs_batch_dims]
    kept_dims += [(lhs, d) for d in range(lhs.rank) if d not in lhs_named]
    kept_dims += [
        (rhs, d) for d in range(rhs.rank) if d not in rhs_named and d not in rhs_group_dims
    ]
    dynamic = [x.is_dynamic_dim(d) for x, d in kept_dims]
    return shape(
        higher_precision(lhs.dtype, rhs.dtype), [x.dims[d] for x, d in kept_dims], None, dynamic
    )


def ragged_dot(dims: Any, lhs: Shape, rhs: Shape, group_sizes: Shape) -> Shape:
    """The result of a ragged dot in the three modes: ragged m, ragged k, ragged batch."""
    expect_array(group_sizes, "group_sizes")
    if group_sizes.rank < 1:
        raise ShapeError(f"group_sizes must have a dimension, not {group_sizes.bare}")
    groups = dims.rhs_group_dims
    result = dot(dims, lhs, rhs, groups)
    if len(dims.lhs_ragged_dims) != 1:
        raise ShapeError(f"lhs needs exactly one ragged dimension, not {len(dims.lhs_ragged_dims)}")
    ragged = dims.lhs_ragged_dims[0]
    if not 0 <= ragged < lhs.rank:
        raise ShapeError(f"the ragged dimension {ragged} is not one of {lhs.bare}")
    _check_group_sizes(dims, lhs, group_sizes)
    for d in groups:
        if not 0 <= d < rhs.rank:
            raise ShapeError(f"the group dimension {d} is not one of {rhs.bare}")
        if d in dims.rhs_batch_dims or d in dims.rhs_contracting_dims:
            raise ShapeError(f"the group dimension {d} of rhs is a batch or contracting dimension")
    if ragged in dims.lhs_batch_dims or ragged in dims.lhs_contracting_dims:
        if groups:
            raise ShapeError("rhs has no group dimension when a batch or contracting one is ragged")
        if ragged in dims.lhs_contracting_dims:
            last = group_sizes.rank - 1
            dynamic = (group_sizes.is_dynamic_dim(last), *(result.dynamic or [False] * result.rank))
            return shape(result.dtype, (group_sizes.dims[last], *result.dims), None, dynamic)
        return result
    if len(groups) != 1:
        raise ShapeError("rhs needs exactly one group dimension when a free dimension is ragged")
    if not sizes_fit(group_sizes.dims[-1], rhs.dims[groups[0]]):
        raise ShapeError(
            f"group_sizes {group_sizes.bare} must name the {rhs.dims[groups[0]]} groups of rhs"
        )
    return result


def group_prefix(dims: Any, rank: int) -> tuple[int, ...]:
    """The dimensions of lhs by which the sizes of the groups may differ: batch dimensions, then
    those before the ragged one in its role."""
    ragged = dims.lhs_ragged_dims[0]
    batch, contracting = tuple(dims.lhs_batch_dims), tuple(dims.lhs_contracting_dims)
    if ragged in batch:
        return batch[: batch.index(ragged)]
    if ragged in contracting:
        return (*batch, *contracting[: contracting.index(ragged)])
    free = (d for d in range(rank) if d < ragged and d not in batch and d not in contracting)
    return (*batch, *free)


def _check_group_sizes(dims: Any, lhs: Shape, group_sizes: Shape) -> None:
    """Raise unless the sizes are one list of groups, or one for each place of the prefix."""
    if group_sizes.rank == 1:
        return
    prefix_sizes = tuple(lhs.dims[d] for d in group_prefix(dims, lhs.rank))
    if not same_sizes(group_sizes.dims[:-1], prefix_sizes):
        raise ShapeError(
            f"group_sizes {group_sizes.bare} must have one dimension, or before it those of lhs "
            f"that stand before the ragged one: {list(prefix_sizes)}"
        )


def scaled_dot(dims: Any, lhs: Shape, rhs: Shape, lhs_scale: Shape, rhs_scale: Shape) -> Shape:
    result = dot(dims, lhs, rhs)
    _check_scale(lhs, lhs_scale, len(dims.lhs_contracting_dims), "lhs")
    _check_scale(rhs, rhs_scale, len(dims.rhs_contracting_dims), "rhs")
    if lhs_scale.is_scalar and rhs_scale.is_scalar:
        raise ShapeError("at least one of the two scales must not be a scalar")
    return result


def _check_scale(x: Shape, scale: Shape, contracting: int, side: str) -> None:
    expect_array(scale, f"the scale of {side}")
    if scale.is_scalar and x.rank:
        return
    if x.dtype is BF16 and scale.dtype is BF16 and all(d == 1 for d in scale.dims):
        if any(d != 1 for d in x.dims):
            return
    if scale.rank != x.rank:
        raise ShapeError(f"the scale {scale.bare} of {side} must have the rank of {x.bare}")
    if contracting != 1:
        raise ShapeError(f"scaled-dot has exactly one contracting dimension, not {contracting}")
    for d, (size, part) in enumerate(zip(x.dims, scale.dims, strict=True)):
        if UNBOUNDED in (size, part):
            continue
        if part == 0 or size % part:
            raise ShapeError(
                f"dimension {d} of {side} {x.bare} is not a multiple of that of its scale "
                f"{scale.bare}"
            )


def check_dimensions(declared: Shape, result: Shape) -> None:
    """A contraction may be declared with any element type; its dimensions follow."""
    if declared.bare is not result and not compatible_ignoring_type(declared, result):
        raise ShapeError(f"the shape is {declared.bare} but must have the dimensions of {result}")
