"""Operations that move data along some dimensions: what a part reads of other parts is brought."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.ir.values.padding import Padding
from hloom.ir.values.slices import Slices
from hloom.passes.partition.assignment import Chosen, Loops, by_factors, say_rebuildable
from hloom.passes.partition.halo import Halo, read
from hloom.passes.partition.loop_accumulators import linked
from hloom.passes.partition.partitioner import Walk, partitions
from hloom.passes.partition.tiling import Tiling
from hloom.passes.partition.value import TiledValue
from hloom.types.dtype import S32


def local(walk: Walk, i: Instruction, chosen: Chosen):
    """The shape of a device's part of the result."""
    return walk.local_shape(i.shape, chosen.results)


def cut_halos(walk: Walk, f: Loops, chosen: Chosen) -> list[tuple[Halo, tuple[int, ...]]]:
    """The halos of factors that are cut, and along which axes."""
    return [
        (h, chosen.axes[k])
        for k, halos in f.halos.items()
        if walk.mesh.count(chosen.axes.get(k, ())) > 1
        for h in halos
    ]


@partitions(
    "sort", "topk", "fft", "cholesky", "triangular-solve", "shuffle", "batch-norm-inference",
    "transpose",
)  # fmt: skip
def along_others(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    """Cut along the dimensions in which nothing moves."""
    if (part := linked(walk, i)) is not None:
        return [part]
    return by_factors(walk, i, Loops.of(i))


@partitions("slice")
def slice_(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    if not i.is_root and i.users and all(rotation(u) is not None for u in i.users):
        # A rotation reads what this is cut out of; made for nobody, it would bring that here.
        (wanted,) = walk.wanted(i)
        whole = Tiling.replicated(i.shape.rank)
        return [walk.free(i.shape, wanted or whole, lambda t: _sliced(walk, i)[0].get(t))]
    return _sliced(walk, i)


def _sliced(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    """The parts of a slice."""
    f, of = Loops.of(i), i.operands[0].shape
    ranges = i.attrs.slice.dimensions
    for d, r in enumerate(ranges):
        if i.shape.dims[d] != of.dims[d]:
            f.moves(f.of_result(d), Halo(0, d, of.dims[d], i.shape.dims[d], r.stride, r.start, 1))

    def emit(parts: list[Instruction], chosen: Chosen) -> Sequence[Instruction]:
        x, shape = parts[0], local(walk, i, chosen)
        moved = {h.dimension: axes for h, axes in cut_halos(walk, f, chosen)}
        for h, axes in cut_halos(walk, f, chosen):
            x = read(walk.b, x, h, axes)
        taken = []
        for d, r in enumerate(ranges):
            if d in moved:
                taken.append((0, x.shape.dims[d], r.stride))
            elif i.shape.dims[d] == of.dims[d]:
                taken.append((0, x.shape.dims[d], 1))
            else:
                taken.append((r.start, r.limit, r.stride))
        return [walk.b.emit_like(i, [x], shape, slice=Slices.of(*taken))]

    return by_factors(walk, i, f, emit)


@partitions("pad")
def pad(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    f, of, b = Loops.of(i), i.operands[0].shape, walk.b
    paddings = i.attrs.padding.dimensions
    for d, p in enumerate(paddings):
        if p.edge_padding_low or p.edge_padding_high or p.interior_padding:
            apart = p.interior_padding + 1
            halo = Halo(
                0, d, of.dims[d], i.shape.dims[d], 1, -p.edge_padding_low,
                base=apart, is_any_phase=apart > 1,
            )  # fmt: skip
            f.moves(f.of_result(d), halo)

    def emit(parts: list[Instruction], chosen: Chosen) -> Sequence[Instruction]:
        x, fill = parts
        shape = local(walk, i, chosen)
        left = [(p.edge_padding_low, p.edge_padding_high, p.interior_padding) for p in paddings]
        windows: list[tuple[Halo, tuple[int, ...]]] = []
        for h, axes in cut_halos(walk, f, chosen):
            x = read(b, x, h, axes, fill)
            # As far as the tile may reach behind the last element that it reads.
            left[h.dimension] = (0, h.base - 1, h.base - 1)
            if h.base > 1:
                windows.append((h, axes))
        if not windows:
            return [b.emit_like(i, [x, fill], shape, padding=Padding.of(*left))]
        sizes = [n + low + high + (n - 1) * p for n, (low, high, p) in zip(x.shape.dims, left)]
        x = b.emit_like(i, [x, fill], shape.with_dims(sizes), padding=Padding.of(*left))
        for h, axes in windows:
            at, tile = h.phases(b.mesh.count(axes)), shape.dims[h.dimension]
            if len(set(at)) == 1:
                x = b.sliced(x, h.dimension, at[0], at[0] + tile)
            else:
                begin = b.of_device([at[k] for k in b.mesh.indices(axes)])
                x = b.dynamic_cut(x, h.dimension, begin, tile)
        return [x]

    return by_factors(walk, i, f, emit)


@partitions("concatenate")
def concatenate(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    if (turned := rotation(i)) is not None:
        return _rotated(walk, i, *turned)
    f = Loops.of(i)
    (d,) = i.attrs.dimensions
    begins: list[int] = [0]
    for x in i.operands:
        begins.append(begins[-1] + x.shape.dims[d])
    if len(i.operands) > 1:
        halos = [
            Halo(k, d, x.shape.dims[d], i.shape.dims[d], 1, -begins[k])
            for k, x in enumerate(i.operands)
            if x.shape.dims[d]
        ]
        f.moves(f.of_result(d), *halos)

    def emit(parts: list[Instruction], chosen: Chosen) -> Sequence[Instruction]:
        shape = local(walk, i, chosen)
        cut = cut_halos(walk, f, chosen)
        if not cut:
            return [walk.b.emit_like(i, parts, shape)]
        b, joined = walk.b, None
        axes = cut[0][1]
        row = shape.dims[d : d + 1]
        at = b.add(b.iota(S32, row, 0), b.spread(b.offset(axes, *row), row))
        for h, _ in cut:
            part = read(b, parts[h.operand], h, axes)
            if joined is None:
                joined = part
                continue
            here = b.compared(at, b.full(begins[h.operand], S32, row), "GE")
            joined = b.select(b.spread(here, shape.dims, (d,)), part, joined)
        assert joined is not None, "something is joined"
        return [joined]

    values = by_factors(walk, i, f, emit)
    say_rebuildable(walk, i, values, lambda t: not t.dims[d])
    return values


def rotation(i: Instruction) -> tuple[Instruction, int] | None:
    """What a concatenation turns round along its dimension, and with which element it begins: the
    end of an array, from there on, and then its beginning."""
    if i.opcode != "concatenate" or len(i.operands) != 2:
        return None
    if any(x.opcode != "slice" for x in i.operands):
        return None
    tail, head = i.operands
    (x,), (d,) = tail.operands, i.attrs.dimensions
    if head.operands[0] is not x or x.shape.dims != i.shape.dims:
        return None
    begin = tail.attrs.slice.dimensions[d].start
    for part, first, limit in ((tail, begin, x.shape.dims[d]), (head, 0, begin)):
        for k, r in enumerate(part.attrs.slice.dimensions):
            want = (first, limit) if k == d else (0, x.shape.dims[k])
            if (r.start, r.limit) != want or r.stride != 1:
                return None
    return x, begin


def _rotated(walk: Walk, i: Instruction, of: Instruction, begin: int) -> list[TiledValue]:
    """A rotation: of its operands nothing is read but what they are slices of."""
    f = Loops.pointwise([of.shape], [i.shape])
    (d,) = i.attrs.dimensions
    n = i.shape.dims[d]
    f.moves(d, Halo(0, d, n, n, 1, begin, is_cyclic=True))
    b = walk.b

    def emit(parts: list[Instruction], chosen: Chosen) -> Sequence[Instruction]:
        (x,) = parts
        for h, axes in cut_halos(walk, f, chosen):
            return [read(b, x, h, axes)]
        return [b.joined([b.sliced(x, d, begin, n), b.sliced(x, d, 0, begin)], d)]

    return by_factors(walk, i, f, emit, [walk.value(of)])


@partitions("reverse")
def reverse(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    f, sizes = Loops.of(i), i.shape.dims
    for d in i.attrs.dimensions:
        f.moves(f.of_result(d), Halo(0, d, sizes[d], sizes[d], is_mirrored=True))

    def emit(parts: list[Instruction], chosen: Chosen) -> Sequence[Instruction]:
        x = parts[0]
        cut = cut_halos(walk, f, chosen)
        for h, axes in cut:
            x = read(walk.b, x, h, axes)
        left = [d for d in i.attrs.dimensions if d not in [h.dimension for h, _ in cut]]
        if not left:
            return [x]
        return [walk.b.emit_like(i, [x], local(walk, i, chosen), dimensions=tuple(left))]

    values = by_factors(walk, i, f, emit)
    turned = i.attrs.dimensions
    say_rebuildable(walk, i, values, lambda t: not any(t.dims[d] for d in turned), is_moved=True)
    return values
