"""Indexed writes: cut along what is not indexed, along the index vectors (partial results then, if
the combiner is one that all-reduces know), or along the indexed dimension, where each device takes
the updates that fall into its part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hloom.ir.instruction import Instruction
from hloom.passes.partition.factors import Chosen, Factors, by_factors
from hloom.passes.partition.gather import (
    index_factors,
    index_type,
    result_factors,
    single_factors,
)
from hloom.passes.partition.partitioner import Walk, partitions, replicated
from hloom.passes.partition.reduce import fold_of
from hloom.passes.partition.reshard import neutral_number
from hloom.passes.partition.tiling import Axes
from hloom.passes.partition.value import Value
from hloom.types.dtype import S32
from hloom.types.shape import Shape


@partitions("scatter")
def scatter(walk: Walk, i: Instruction) -> Sequence[Value]:
    n = len(i.operands) // 2
    x, indices, updates = [i.operands[k].shape for k in (0, n, n + 1)]
    if x.is_dynamic or indices.is_dynamic or updates.is_dynamic:
        return replicated(walk, i, "it has dimensions of run-time size")
    written = _Written.of(i, x, indices, updates)
    f, by_index = written.factors, written.by_index
    each = single_factors(written.of_operand, x.rank)
    f.operands = [each] * n + [single_factors(written.of_indices, indices.rank)]
    f.operands += [written.update] * n
    f.results = [each] * n
    opcode = fold_of(i.called[0]) if n == 1 else None
    if opcode is None:
        f.whole |= written.own
    else:
        f.reduced, f.reduction = written.own, opcode

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
    dtype = index_type(parts[1].shape.dtype)
    away = b.scalar(-1, dtype)
    of = i.operands[1].shape
    masked = b.masked(b.converted(parts[1], dtype), of, chosen.operands[1], dims, away)
    parts[1] = masked


def _shifted(
    walk: Walk, i: Instruction, indices: Instruction, cut: dict[int, tuple[Axes, int]]
) -> Instruction:
    """Indices counted from where this device's part begins; others miss it."""
    b, a = walk.b, i.attrs
    dtype = index_type(indices.shape.dtype)
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


@dataclass
class _Written:
    """Which factors count the dimensions of a scatter."""

    factors: Factors
    of_operand: dict[int, int]
    of_indices: dict[int, int]
    update: tuple[tuple[int, ...], ...] = ()
    own: set[int] = field(default_factory=set)
    """Factors of index vectors that the operand does not have."""
    by_index: dict[int, int] = field(default_factory=dict)
    """Of dimensions of the operand whose single elements are indexed."""

    @staticmethod
    def of(i: Instruction, x: Shape, indices: Shape, updates: Shape) -> _Written:
        a, f = i.attrs, Factors([], [], [])
        of_indices = index_factors(f, indices.dims, a.index_vector_dim)
        batching = zip(a.input_batching_dims, a.scatter_indices_batching_dims)
        found = _Written(f, {d: of_indices[k] for d, k in batching}, of_indices)
        of_x, shared = found.of_operand, set(found.of_operand.values())
        sizes = iter([updates.dims[d] for d in a.update_window_dims])
        window: list[int] = []
        for d, size in enumerate(x.dims):
            if d in of_x:
                continue
            of_x[d] = f.new(size)
            if d in a.inserted_window_dims:
                if d in a.scatter_dims_to_operand_dims:
                    found.by_index[d] = of_x[d]
                else:
                    f.whole.add(of_x[d])
            elif (taken := next(sizes)) == size:
                window.append(of_x[d])
            else:
                window.append(f.new(taken))
                f.whole |= {of_x[d], window[-1]}
        batch = [of_indices[k] for k in range(indices.rank) if k != a.index_vector_dim]
        found.update = result_factors(batch, window, a.update_window_dims)
        found.own = {k for k in batch if k not in shared}
        return found
