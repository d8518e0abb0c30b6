"""Indexed writes: cut along what is not indexed, along the index vectors (partial results then, if
the combiner is one that all-reduces know), or along the indexed dimension, where each device takes
the updates that fall into its part."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.passes.partition.assignment import Chosen, Loops, by_factors
from hloom.passes.partition.gather import index_type
from hloom.passes.partition.partitioner import Walk, partitions
from hloom.passes.partition.reduce import fold_of
from hloom.passes.partition.reshard import neutral_number
from hloom.passes.partition.tiling import Axes
from hloom.passes.partition.value import TiledValue
from hloom.types.dtype import S32


@partitions("scatter")
def scatter(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    n = len(i.operands) // 2
    a, x = i.attrs, i.operands[0].shape
    f = Loops.of(i)
    by_index = {d: f.operands[0][d][0] for d in a.inserted_window_dims}
    f.whole |= {k for d, k in by_index.items() if d not in a.scatter_dims_to_operand_dims}
    opcode = fold_of(i.called[0]) if n == 1 else None
    if opcode is None:
        f.whole |= f.reduced
    else:
        f.reduction = opcode

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
        scattered = b.emit_like(i, parts, walk.local_shape(i.shape, chosen.results))
        return [scattered] if n == 1 else [b.element(scattered, k) for k in range(n)]

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
