"""Operations that move data along some dimensions and leave the others alone: cut along those."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.ir.values.slices import Slices
from hloom.passes.partition.factors import Chosen, Dims, Factors, by_factors
from hloom.passes.partition.partitioner import Walk, partitions, replicated
from hloom.passes.partition.value import Value


def along(sizes: Sequence[int], ranks: Sequence[int], whole: Sequence[int], results: int = 1):
    """Factors of operands and results that all have these dimensions, some not to be cut; of
    another rank are scalars."""
    every: Dims = tuple([(k,) for k in range(len(sizes))])
    f = Factors(
        list(sizes),
        [every if r == len(sizes) else () for r in ranks],
        [every] * results,
    )
    f.whole = set(whole)
    return f


def _different(i: Instruction) -> list[int]:
    """The dimensions in which operand 0 and the result have other sizes."""
    before, after = i.operands[0].shape.dims, i.shape.dims
    return [k for k in range(len(after)) if before[k] != after[k]]


@partitions("slice")
def slice_(walk: Walk, i: Instruction) -> Sequence[Value]:
    of = i.operands[0].shape
    if of.is_dynamic:
        return replicated(walk, i, "it has dimensions of run-time size")
    cut = [k for k, d in enumerate(i.attrs.slice.dimensions) if d.size != of.dims[k]]
    f = along(of.dims, [of.rank], cut)

    def emit(parts: list[Instruction], chosen: Chosen) -> Sequence[Instruction]:
        ranges = [
            (d.start, d.limit, d.stride) if k in cut else (0, parts[0].shape.dims[k], 1)
            for k, d in enumerate(i.attrs.slice.dimensions)
        ]
        return [
            walk.b.emit_like(
                i, parts, walk.local_shape(i.shape, chosen.results), slice=Slices.of(*ranges)
            )
        ]

    return by_factors(walk, i, f, emit)


@partitions("pad")
def pad(walk: Walk, i: Instruction) -> Sequence[Value]:
    of = i.operands[0].shape
    if of.is_dynamic or i.shape.is_dynamic:
        return replicated(walk, i, "it has dimensions of run-time size")
    changed = [
        k
        for k, d in enumerate(i.attrs.padding.dimensions)
        if d.edge_padding_low or d.edge_padding_high or d.interior_padding
    ]
    return by_factors(walk, i, along(of.dims, [of.rank, -1], changed))


@partitions("concatenate")
def concatenate(walk: Walk, i: Instruction) -> Sequence[Value]:
    if i.shape.is_dynamic:
        return replicated(walk, i, "it has dimensions of run-time size")
    ranks = [i.shape.rank] * len(i.operands)
    return by_factors(walk, i, along(i.shape.dims, ranks, i.attrs.dimensions))


@partitions("reverse", "shuffle")
def reverse(walk: Walk, i: Instruction) -> Sequence[Value]:
    if i.shape.is_dynamic:
        return replicated(walk, i, "it has dimensions of run-time size")
    return by_factors(walk, i, along(i.shape.dims, [i.shape.rank], i.attrs.dimensions))


@partitions("dynamic-slice")
def dynamic_slice(walk: Walk, i: Instruction) -> Sequence[Value]:
    of = i.operands[0].shape
    if of.is_dynamic:
        return replicated(walk, i, "it has dimensions of run-time size")
    cut = _different(i)
    f = along(of.dims, [of.rank, *[-1] * (len(i.operands) - 1)], cut)

    def emit(parts: list[Instruction], chosen: Chosen) -> Sequence[Instruction]:
        shape = walk.local_shape(i.shape, chosen.results)
        return [walk.b.emit_like(i, parts, shape, dynamic_slice_sizes=shape.dims)]

    return by_factors(walk, i, f, emit)


@partitions("dynamic-update-slice")
def dynamic_update_slice(walk: Walk, i: Instruction) -> Sequence[Value]:
    of, update = i.operands[0].shape, i.operands[1].shape
    if of.is_dynamic:
        return replicated(walk, i, "it has dimensions of run-time size")
    whole = [k for k in range(of.rank) if update.dims[k] != of.dims[k]]
    f = along(of.dims, [of.rank, of.rank, *[-1] * (len(i.operands) - 2)], whole)
    return by_factors(walk, i, f)


@partitions("sort")
def sort(walk: Walk, i: Instruction) -> Sequence[Value]:
    of = i.operands[0].shape
    if of.is_dynamic:
        return replicated(walk, i, "it has dimensions of run-time size")
    n = len(i.operands)
    return by_factors(walk, i, along(of.dims, [of.rank] * n, i.attrs.dimensions, n))


@partitions("topk")
def topk(walk: Walk, i: Instruction) -> Sequence[Value]:
    of = i.operands[0].shape
    if of.is_dynamic:
        return replicated(walk, i, "it has dimensions of run-time size")
    return by_factors(walk, i, along(of.dims, [of.rank], [of.rank - 1], 2))


@partitions("fft")
def fft(walk: Walk, i: Instruction) -> Sequence[Value]:
    of = i.operands[0].shape
    first = of.rank - len(i.attrs.fft_length)
    return by_factors(walk, i, along(of.dims, [of.rank], range(first, of.rank)))


@partitions("cholesky")
def cholesky(walk: Walk, i: Instruction) -> Sequence[Value]:
    of = i.operands[0].shape
    return by_factors(walk, i, along(of.dims, [of.rank], (of.rank - 2, of.rank - 1)))


@partitions("triangular-solve")
def triangular_solve(walk: Walk, i: Instruction) -> Sequence[Value]:
    a, x = [x.shape for x in i.operands]
    f = along(x.dims, [a.rank, x.rank], ())
    # Right-hand sides are solved each by itself; the matrix and the unknowns are needed whole.
    unknown = x.rank - 2 if i.attrs.left_side else x.rank - 1
    f.whole = {unknown}
    size = f.new(a.dims[-1])
    f.whole.add(size)
    batch = tuple([(k,) for k in range(a.rank - 2)])
    f.operands[0] = (*batch, (size,), (size,))
    return by_factors(walk, i, f)


@partitions("reduce-window")
def reduce_window(walk: Walk, i: Instruction) -> Sequence[Value]:
    of = i.operands[0].shape
    if of.is_dynamic:
        return replicated(walk, i, "it has dimensions of run-time size")
    n = len(i.operands) // 2
    whole = windowed(i)
    return by_factors(walk, i, along(of.dims, [of.rank] * n + [-1] * n, whole, n))


@partitions("select-and-scatter")
def select_and_scatter(walk: Walk, i: Instruction) -> Sequence[Value]:
    of = i.operands[0].shape
    return by_factors(walk, i, along(of.dims, [of.rank, of.rank, -1], windowed(i)))


def windowed(i: Instruction) -> list[int]:
    """The dimensions along which a window is not one element at each place."""
    return [
        k
        for k, d in enumerate(i.attrs.window.dimensions)
        if not (
            d.size == 1
            and d.stride == 1
            and d.padding_low == d.padding_high == 0
            and d.window_dilation == d.base_dilation == 1
        )
    ]
