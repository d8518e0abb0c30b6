"""Indexed reads: cut along what is not indexed, along the index vectors, or along the
indexed dimension itself, where each device serves the indices that fall into its part."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.passes.partition.assignment import Chosen, Loops, by_factors
from hloom.passes.partition.partitioner import Walk, partitions
from hloom.passes.partition.reshard import neutral_number
from hloom.passes.partition.tiling import Axes
from hloom.passes.partition.value import TiledValue
from hloom.passes.sharding.counted_indices import counted_by_gather
from hloom.types.dtype import PRED, S32, S64, U32, U64, DType


@partitions("gather")
def gather(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    a = i.attrs
    x = i.operands[0].shape
    f = Loops.of(i)
    by_index: dict[int, int] = {}
    counted = counted_by_gather(i).values()
    for d in a.collapsed_slice_dims:
        (factor,) = f.operands[0][d]
        if d in counted or (d in a.start_index_map and factor in f.reduced):
            by_index[d] = factor
        else:
            f.whole.add(factor)
    f.reduction = "or" if x.dtype is PRED else "add"

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
    slices = b.emit_like(i, [x, indices], shape, slice_sizes=sizes)
    if inside is None:
        return slices
    batch = [k for k in range(shape.rank) if k not in a.offset_dims]
    here = b.spread(inside, shape.dims, batch)
    neutral = neutral_number("or" if shape.dtype is PRED else "add", shape.dtype)
    return b.select(here, slices, b.full(neutral, shape.dtype, shape.dims))


def _relative(
    walk: Walk, i: Instruction, indices: Instruction, cut: dict[int, tuple[Axes, int, int]]
) -> tuple[Instruction, Instruction | None]:
    """Indices counted from where this device's part begins, and whether they fall into it: None
    where all do, as those that count along the batches that the device has.

    `cut` has axes, size of the part and size of the whole for each indexed dimension.
    """
    b, a = walk.b, i.attrs
    dtype = index_type(indices.shape.dtype)
    if indices.shape.dtype is U64:
        indices = b.minimum(indices, b.full(2**63 - 1, U64, indices.shape.dims))
    indices = b.converted(indices, dtype)
    v = a.index_vector_dim
    if v == indices.shape.rank:
        indices = b.reshaped(indices, (*indices.shape.dims, 1))
    dims = indices.shape.dims
    rest = tuple([n for k, n in enumerate(dims) if k != v])
    pieces = [b.sliced(indices, v, k, k + 1) for k in range(dims[v])]
    inside: Instruction | None = None
    counted = counted_by_gather(i).values()
    for d, (axes, part, size) in cut.items():
        k = a.start_index_map.index(d)
        p = pieces[k]
        last = b.full(size - 1, dtype, p.shape.dims)
        p = b.clamp(b.full(0, dtype, p.shape.dims), p, last)
        first = b.spread(b.converted(b.offset(axes, part), dtype), p.shape.dims)
        p = pieces[k] = b.subtract(p, first)
        if d in counted:
            continue
        low = b.compared(p, b.full(0, dtype, p.shape.dims), "GE")
        high = b.compared(p, b.full(part, dtype, p.shape.dims), "LT")
        here = b.reshaped(b.and_(low, high), rest)
        inside = here if inside is None else b.and_(inside, here)
    joined = b.joined(pieces, v)
    if a.index_vector_dim == len(rest) and i.operands[1].shape.rank == len(rest):
        joined = b.reshaped(joined, rest)
    return joined, inside


def index_type(t: DType) -> DType:
    """A signed type for differences of indices."""
    return S32 if t.bits < 32 or t is S32 else S64 if t is U32 or t.bits == 64 else t
