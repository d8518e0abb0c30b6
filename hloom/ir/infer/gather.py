"""Gather and scatter: what their dimension numbers mean and when they fit."""

from collections.abc import Sequence
from typing import Any

from hloom.ir.infer.compare import (
    braced,
    expect_array,
    expect_dimensions,
    expect_integers,
    flags,
    scalar,
    sizes_fit,
)
from hloom.ir.infer.window import check_reducer
from hloom.ir.op import ShapeError
from hloom.types.shape import UNBOUNDED, Shape, shape, tuple_shape


def _index_dims(indices: Shape, vector_dim: int) -> tuple[list[int], list[bool]]:
    """The dimensions of the indices, with a last one of size 1 if it is implied."""
    expect_integers(indices, "indices")
    if not 0 <= vector_dim <= indices.rank:
        raise ShapeError(f"index_vector_dim={vector_dim} is not one of {indices.bare}")
    dims, dynamic = list(indices.dims), flags(indices)
    if vector_dim == len(dims):
        dims.append(1)
        dynamic.append(False)
    return dims, dynamic


def _check_map(indexed: Sequence[int], x: Shape, vector_size: int, what: str) -> None:
    if not sizes_fit(len(indexed), vector_size):
        raise ShapeError(f"{what}={braced(indexed)} must name {vector_size} dimensions")
    expect_dimensions(indexed, x.rank, what, order=False)


def _check_batching(
    batching: Sequence[int], index_batching: Sequence[int], x: Shape, index_rank: int, names: str
) -> None:
    if len(batching) != len(index_batching):
        raise ShapeError(
            f"{names} must be as many: {braced(batching)} and {braced(index_batching)}"
        )
    expect_dimensions(batching, x.rank, names, order=True)
    expect_dimensions(index_batching, index_rank, names, order=False)


def gather(a: Any, x: Shape, indices: Shape) -> Shape:
    expect_array(x, "the operand of gather")
    index_dims, index_dynamic = _index_dims(indices, a.index_vector_dim)
    rank = len(a.offset_dims) + len(index_dims) - 1
    expect_dimensions(a.offset_dims, rank, "offset_dims", order=True)
    _check_map(a.start_index_map, x, index_dims[a.index_vector_dim], "start_index_map")
    expect_dimensions(a.collapsed_slice_dims, x.rank, "collapsed_slice_dims", order=True)
    _check_batching(
        a.operand_batching_dims,
        a.start_indices_batching_dims,
        x,
        len(index_dims),
        "operand_batching_dims and start_indices_batching_dims",
    )
    dropped = (*a.collapsed_slice_dims, *a.operand_batching_dims)
    _check_slice_sizes(a, x, dropped)
    kept_dims = iter([d for d in range(x.rank) if d not in dropped])
    looked_up = iter([d for d in range(len(index_dims)) if d != a.index_vector_dim])
    dims: list[int] = []
    dynamic: list[bool] = []
    for position in range(rank):
        if position in a.offset_dims:
            d = next(kept_dims)
            dims.append(a.slice_sizes[d])
            dynamic.append(a.slice_sizes[d] == x.dims[d] and x.is_dynamic_dim(d))
        else:
            d = next(looked_up)
            dims.append(index_dims[d])
            dynamic.append(index_dynamic[d])
    return shape(x.dtype, dims, None, dynamic)


def _check_slice_sizes(a: Any, x: Shape, dropped: Sequence[int]) -> None:
    sizes = a.slice_sizes
    if len(sizes) != x.rank:
        raise ShapeError(f"slice_sizes={braced(sizes)} must have {x.rank} sizes, as {x.bare}")
    if len(sizes) != len(a.offset_dims) + len(dropped) or len(set(dropped)) != len(dropped):
        raise ShapeError(
            f"each dimension of {x.bare} must be an offset, a collapsed or a batching dimension"
        )
    for d, (size, slice_size) in enumerate(zip(x.dims, sizes)):
        if size != UNBOUNDED and not 0 <= slice_size <= size:
            raise ShapeError(f"slice_sizes={braced(sizes)} do not fit in {x.bare}")
        if d in dropped and slice_size > 1:
            raise ShapeError(f"dimension {d} is left out, so its slice size must be 1 or 0")


def scatter(a: Any, inputs: Sequence[Shape], called: Sequence) -> Shape:
    n = len(inputs) // 2
    if n < 1 or len(inputs) != 2 * n + 1:
        raise ShapeError(f"scatter takes n operands, indices and n updates, not {len(inputs)}")
    operands, indices, updates = inputs[:n], inputs[n], inputs[n + 1 :]
    index_dims, _ = _index_dims(indices, a.index_vector_dim)
    for x, update in zip(operands, updates):
        expect_array(x, "an operand of scatter")
        expect_array(update, "the updates of scatter")
        _check_scatter(a, x, index_dims, update)
    check_reducer(called[0], [scalar(x.dtype) for x in operands], [u.dtype for u in updates])
    return operands[0].bare if n == 1 else tuple_shape(x.bare for x in operands)


def _check_scatter(a: Any, x: Shape, index_dims: list[int], update: Shape) -> None:
    rank = len(index_dims) - 1 + len(a.update_window_dims)
    if update.rank != rank:
        raise ShapeError(f"the updates must have {rank} dimensions, not {update.bare}")
    expect_dimensions(a.update_window_dims, rank, "update_window_dims", order=True)
    expect_dimensions(a.inserted_window_dims, x.rank, "inserted_window_dims", order=True)
    vector_size = index_dims[a.index_vector_dim]
    _check_map(a.scatter_dims_to_operand_dims, x, vector_size, "scatter_dims_to_operand_dims")
    _check_batching(
        a.input_batching_dims,
        a.scatter_indices_batching_dims,
        x,
        len(index_dims),
        "input_batching_dims and scatter_indices_batching_dims",
    )
    left_out = (*a.inserted_window_dims, *a.input_batching_dims)
    window = [d for d in range(x.rank) if d not in left_out]
    if len(a.update_window_dims) + len(left_out) != x.rank or len(window) != len(
        a.update_window_dims
    ):
        raise ShapeError(
            f"each dimension of {x.bare} must be a window, an inserted or a batching dimension"
        )
    for u, d in zip(a.update_window_dims, window):
        size, limit = update.dims[u], x.dims[d]
        if UNBOUNDED not in (size, limit) and size > limit:
            raise ShapeError(f"dimension {u} of the updates {update.bare} exceeds that of {x.bare}")
    looked_up = (d for d in range(len(index_dims)) if d != a.index_vector_dim)
    scattered = (u for u in range(rank) if u not in a.update_window_dims)
    for u, d in zip(scattered, looked_up):
        if not sizes_fit(update.dims[u], index_dims[d]):
            raise ShapeError(f"dimension {u} of the updates {update.bare} must be {index_dims[d]}")
