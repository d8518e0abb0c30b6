"""Indexed reads: cut along what is not indexed, along the index vectors, or along the
indexed dimension itself, where each device serves the indices that fall into its part."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.passes.partition.factors import Chosen, Factors, by_factors
from hloom.passes.partition.partitioner import Walk, partitions, replicated
from hloom.passes.partition.tiling import Axes
from hloom.passes.partition.value import Value
from hloom.types.dtype import PRED, S32, S64, U32, DType


@partitions("gather")
def gather(walk: Walk, i: Instruction) -> Sequence[Value]:
    a = i.attrs
    x, indices = [v.shape for v in i.operands]
    if x.is_dynamic or indices.is_dynamic or i.shape.is_dynamic:
        return replicated(walk, i, "it has dimensions of run-time size")
    f = Factors([], [], [])
    of_x: dict[int, int] = {}
    of_indices = index_factors(f, indices.dims, a.index_vector_dim)
    for d, k in zip(a.operand_batching_dims, a.start_indices_batching_dims):
        of_x[d] = of_indices[k]
    offsets: list[int] = []
    by_index: dict[int, int] = {}
    for d, (size, taken) in enumerate(zip(x.dims, a.slice_sizes)):
        if d in of_x:
            continue
        of_x[d] = f.new(size)
        if d not in a.collapsed_slice_dims:
            offsets.append(of_x[d])
        if taken == size and d not in a.collapsed_slice_dims:
            continue
        if d in a.collapsed_slice_dims and d in a.start_index_map:
            by_index[d] = of_x[d]
            f.reduced.add(of_x[d])
        else:
            f.whole.add(of_x[d])
    f.reduction = "or" if x.dtype is PRED else "add"
    batch = [of_indices[k] for k in range(indices.rank) if k != a.index_vector_dim]
    f.operands = [single_factors(of_x, x.rank), single_factors(of_indices, indices.rank)]
    f.results = [result_factors(batch, offsets, a.offset_dims)]

    def emit(parts: list[Instruction], chosen: Chosen) -> Sequence[Instruction]:
        shape = walk.local_shape(i.shape, chosen.results)
        local = parts[0].shape.dims
        sizes = [
            n if taken == size and d not in by_index else taken
            for d, (n, size, taken) in enumerate(zip(local, x.dims, a.slice_sizes))
        ]
        cut = {d: chosen.axes[k] for d, k in by_index.items() if chosen.axes.get(k)}
        if not cut:
            return [walk.b.emit_like(i, parts, shape, slice_sizes=tuple(sizes))]
        return [_served(walk, i, parts, (shape, tuple(sizes)), cut)]

    return by_factors(walk, i, f, emit)


def _served(walk: Walk, i: Instruction, parts: list[Instruction], of, cut: dict[int, Axes]):
    """What this device has of the slices, zeros for the others."""
    b, a = walk.b, i.attrs
    shape, sizes = of
    x, indices = parts
    whole = i.operands[0].shape.dims
    indices, inside = _relative(
        walk, i, indices, {d: (axes, x.shape.dims[d], whole[d]) for d, axes in cut.items()}
    )
    made = b.emit_like(i, [x, indices], shape, slice_sizes=sizes)
    batch = [k for k in range(shape.rank) if k not in a.offset_dims]
    here = b.spread(inside, shape.dims, batch)
    return b.select(here, made, b.spread(b.zero(shape.dtype), shape.dims))


def _relative(
    walk: Walk, i: Instruction, indices: Instruction, cut: dict[int, tuple[Axes, int, int]]
) -> tuple[Instruction, Instruction]:
    """Indices counted from where this device's part begins, and whether they fall into it.

    `cut` has axes, size of the part and size of the whole for each indexed dimension.
    """
    b, a = walk.b, i.attrs
    dtype = index_type(indices.shape.dtype)
    indices = b.converted(indices, dtype)
    v = a.index_vector_dim
    if v == indices.shape.rank:
        indices = b.reshaped(indices, (*indices.shape.dims, 1))
    dims = indices.shape.dims
    rest = tuple([n for k, n in enumerate(dims) if k != v])
    pieces = [b.sliced(indices, v, k, k + 1) for k in range(dims[v])]
    inside: Instruction | None = None
    for d, (axes, part, size) in cut.items():
        k = a.start_index_map.index(d)
        p = pieces[k]
        last = b.full(size - 1, dtype, p.shape.dims)
        p = b.clamp(b.full(0, dtype, p.shape.dims), p, last)
        first = b.spread(b.converted(b.offset(axes, part), dtype), p.shape.dims)
        p = pieces[k] = b.subtract(p, first)
        low = b.compared(p, b.full(0, dtype, p.shape.dims), "GE")
        high = b.compared(p, b.full(part, dtype, p.shape.dims), "LT")
        here = b.reshaped(b.and_(low, high), rest)
        inside = here if inside is None else b.and_(inside, here)
    assert inside is not None, "some dimension is cut"
    joined = b.joined(pieces, v)
    if a.index_vector_dim == len(rest) and i.operands[1].shape.rank == len(rest):
        joined = b.reshaped(joined, rest)
    return joined, inside


def index_type(t: DType) -> DType:
    """A signed type for differences of indices."""
    return S32 if t.bits < 32 or t is S32 else S64 if t is U32 or t.bits == 64 else t


def index_factors(f: Factors, dims: Sequence[int], vector: int) -> dict[int, int]:
    found = {k: f.new(n) for k, n in enumerate(dims)}
    if vector in found:
        f.whole.add(found[vector])
    return found


def single_factors(of: dict[int, int], rank: int) -> tuple[tuple[int, ...], ...]:
    return tuple([(of[d],) for d in range(rank)])


def result_factors(batch: Sequence[int], window: Sequence[int], window_dims: Sequence[int]):
    """Factors of dimensions that are those of index vectors, and at `window_dims` of windows."""
    left, inner = iter(batch), iter(window)
    rank = len(batch) + len(window)
    return tuple([(next(inner if d in window_dims else left),) for d in range(rank)])
