"""Indexed reads and writes: cut along what is not indexed, along the index vectors, or along the
indexed dimension itself, where each device serves the indices that fall into its part."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.passes.partition.factors import Chosen, Factors, by_factors
from hloom.passes.partition.partitioner import Walk, partitions, replicated
from hloom.passes.partition.reduce import fold_of
from hloom.passes.partition.reshard import neutral_number
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
    of_indices = _index_factors(f, indices.dims, a.index_vector_dim)
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
    f.operands = [_singles(of_x, x.rank), _singles(of_indices, indices.rank)]
    f.results = [_results(batch, offsets, a.offset_dims)]

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
    dtype = _index_type(indices.shape.dtype)
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


def _index_type(t: DType) -> DType:
    """A signed type for differences of indices."""
    return S32 if t.bits < 32 or t is S32 else S64 if t is U32 or t.bits == 64 else t


def _index_factors(f: Factors, dims: Sequence[int], vector: int) -> dict[int, int]:
    found = {k: f.new(n) for k, n in enumerate(dims)}
    if vector in found:
        f.whole.add(found[vector])
    return found


def _singles(of: dict[int, int], rank: int) -> tuple[tuple[int, ...], ...]:
    return tuple([(of[d],) for d in range(rank)])


def _results(batch: Sequence[int], window: Sequence[int], window_dims: Sequence[int]):
    """Factors of dimensions that are those of index vectors, and at `window_dims` of windows."""
    left, inner = iter(batch), iter(window)
    rank = len(batch) + len(window)
    return tuple([(next(inner if d in window_dims else left),) for d in range(rank)])


@partitions("scatter")
def scatter(walk: Walk, i: Instruction) -> Sequence[Value]:
    a = i.attrs
    n = len(i.operands) // 2
    x, indices, updates = [i.operands[k].shape for k in (0, n, n + 1)]
    if x.is_dynamic or indices.is_dynamic or updates.is_dynamic:
        return replicated(walk, i, "it has dimensions of run-time size")
    f = Factors([], [], [])
    of_indices = _index_factors(f, indices.dims, a.index_vector_dim)
    of_x = {
        d: of_indices[k] for d, k in zip(a.input_batching_dims, a.scatter_indices_batching_dims)
    }
    shared = set(of_x.values())
    sizes = iter([updates.dims[d] for d in a.update_window_dims])
    window: list[int] = []
    by_index: dict[int, int] = {}
    for d, size in enumerate(x.dims):
        if d in of_x:
            continue
        of_x[d] = f.new(size)
        if d in a.inserted_window_dims:
            if d in a.scatter_dims_to_operand_dims:
                by_index[d] = of_x[d]
            else:
                f.whole.add(of_x[d])
        elif (taken := next(sizes)) == size:
            window.append(of_x[d])
        else:
            f.whole.add(of_x[d])
            window.append(f.new(taken))
            f.whole.add(window[-1])
    batch = [of_indices[k] for k in range(indices.rank) if k != a.index_vector_dim]
    each = _singles(of_x, x.rank)
    update = _results(batch, window, a.update_window_dims)
    f.operands = [each] * n + [_singles(of_indices, indices.rank)] + [update] * n
    f.results = [each] * n
    own = {k for k in batch if k not in shared}
    opcode = fold_of(i.called[0]) if n == 1 else None
    if opcode is None:
        f.whole |= own
    else:
        f.reduced, f.reduction = own, opcode

    def emit(parts: list[Instruction], chosen: Chosen) -> Sequence[Instruction]:
        b = walk.b
        parts = list(parts)
        partial = chosen.results[0].partial
        if partial and opcode is not None:
            _masked_updates(walk, i, parts, chosen)
            first = b.of_device([int(k == 0) for k in walk.mesh.indices(partial)])
            dims = parts[0].shape.dims
            here = b.spread(b.compared(first, b.scalar(1, S32), "EQ"), dims)
            neutral = b.full(neutral_number(opcode, x.dtype), x.dtype, dims)
            parts[0] = b.select(here, parts[0], neutral)
        cut = {d: chosen.axes[k] for d, k in by_index.items() if chosen.axes.get(k)}
        if cut:
            parts[n] = _shifted(
                walk, i, parts[n], {d: (t, parts[0].shape.dims[d]) for d, t in cut.items()}
            )
        made = b.emit_like(i, parts, walk.local_shape(i.shape, chosen.results))
        return [made] if n == 1 else [b.element(made, k) for k in range(n)]

    return by_factors(walk, i, f, emit)


def _masked_updates(walk: Walk, i: Instruction, parts: list[Instruction], chosen: Chosen) -> None:
    """Indices beyond the end of an uneven part are made to miss."""
    b, a = walk.b, i.attrs
    dims = [k for k in range(i.operands[1].shape.rank) if k != a.index_vector_dim]
    dtype = _index_type(parts[1].shape.dtype)
    away = b.scalar(-1, dtype)
    of = i.operands[1].shape
    masked = b.masked(b.converted(parts[1], dtype), of, chosen.operands[1], dims, away)
    parts[1] = masked


def _shifted(
    walk: Walk, i: Instruction, indices: Instruction, cut: dict[int, tuple[Axes, int]]
) -> Instruction:
    """Indices counted from where this device's part begins; others miss it."""
    b, a = walk.b, i.attrs
    dtype = _index_type(indices.shape.dtype)
    indices = b.converted(indices, dtype)
    v, rank = a.index_vector_dim, indices.shape.rank
    count = 1 if v == rank else indices.shape.dims[v]
    zero = b.scalar(0, dtype)
    firsts = [zero] * count
    for d, (axes, part) in cut.items():
        k = a.scatter_dims_to_operand_dims.index(d)
        firsts[k] = b.converted(b.offset(axes, part), dtype)
    row = b.joined([b.reshaped(x, (1,)) for x in firsts], 0)
    if v == rank:
        return b.subtract(indices, b.spread(firsts[0], indices.shape.dims))
    return b.subtract(indices, b.spread(row, indices.shape.dims, (v,)))
