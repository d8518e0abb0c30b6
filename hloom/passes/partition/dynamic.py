"""Slices that begin where a value says: each device serves or writes what falls into its part."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.instruction import Instruction
from hloom.passes.partition.assignment import Chosen, Loops, by_factors
from hloom.passes.partition.partitioner import Walk, partitions
from hloom.passes.partition.reshard import Emitter, neutral_number
from hloom.passes.partition.tiling import Axes
from hloom.passes.partition.value import TiledValue
from hloom.types.dtype import PRED, S32


@partitions("dynamic-slice")
def dynamic_slice(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    f, of = Loops.of(i), i.operands[0].shape
    f.reduction = "or" if of.dtype is PRED else "add"
    b = walk.b

    def emit(parts: list[Instruction], chosen: Chosen) -> Sequence[Instruction]:
        x, starts = parts[0], list(parts[1:])
        shape = walk.local_shape(i.shape, chosen.results)
        inside: Instruction | None = None
        cut = [
            d
            for d in range(of.rank)
            if i.shape.dims[d] != of.dims[d] and chosen.operands[0].dims[d]
        ]
        if not cut:
            return [b.emit_like(i, parts, shape, dynamic_slice_sizes=shape.dims)]
        for d in cut:
            axes, size = chosen.operands[0].dims[d], shape.dims[d]
            distance = _distance(b, starts[d], of.dims[d] - size, axes, x.shape.dims[d])
            # Elements before and behind the part are zeros: the slice may begin that far out.
            tile = x.shape.dims[d]
            x = b.padded_both(x, d, size, size)
            at = b.clamp(b.scalar(-size, S32), distance, b.scalar(tile, S32))
            starts[d] = b.add(at, b.scalar(size, S32))
            here = _within(b, distance, shape.dims, d, tile)
            inside = here if inside is None else b.and_(inside, here)
        starts = [
            s if s.shape.dtype is S32 else bounded_start(b, s, of.dims[d] - i.shape.dims[d])
            for d, s in enumerate(starts)
        ]
        piece = b.emit_like(i, [x, *starts], shape, dynamic_slice_sizes=shape.dims)
        assert inside is not None, "some dimension is cut"
        neutral = neutral_number(f.reduction, shape.dtype)
        return [b.select(inside, piece, b.full(neutral, shape.dtype, shape.dims))]

    return by_factors(walk, i, f, emit)


def _distance(b: Emitter, start: Instruction, last: int, axes: Axes, tile: int) -> Instruction:
    """How far behind the beginning of this device's part a slice begins, after it was put back
    into the whole as the operation says."""
    return b.subtract(bounded_start(b, start, last), b.offset(axes, tile))


def bounded_start(b: Emitter, start: Instruction, last: int) -> Instruction:
    """A start between 0 and `last`, as s32: bounded in its own type, which may be wider."""
    own = start.shape.dtype
    high = min(last, (1 << (own.bits - int(own.is_signed_int))) - 1)
    return b.converted(b.clamp(b.scalar(0, own), start, b.scalar(high, own)), S32)


def _within(b: Emitter, distance: Instruction, dims: Sequence[int], d: int, tile: int):
    """Which of the elements from there on fall into the part."""
    row = dims[d : d + 1]
    at = b.add(b.iota(S32, row, 0), b.spread(distance, row))
    low = b.compared(at, b.full(0, S32, row), "GE")
    here = b.and_(low, b.compared(at, b.full(tile, S32, row), "LT"))
    return b.spread(here, dims, (d,))


@partitions("dynamic-update-slice")
def dynamic_update_slice(walk: Walk, i: Instruction) -> Sequence[TiledValue]:
    f, of, update = Loops.of(i), i.operands[0].shape, i.operands[1].shape
    b, operands, (wanted,) = walk.b, walk.operands(i), walk.wanted(i)
    if wanted is None and not operands[0].is_free:
        # Loops write a little of much: moving the update is cheaper than the array ever after.
        wanted = operands[0].primary

    def emit(parts: list[Instruction], chosen: Chosen) -> Sequence[Instruction]:
        x, new, starts = parts[0], parts[1], list(parts[2:])
        written = [d for d in range(of.rank) if update.dims[d] != of.dims[d]]
        cut = {d: chosen.results[0].dims[d] for d in written if chosen.results[0].dims[d]}
        if not cut:
            return [b.emit_like(i, parts, x.shape)]
        sizes = list(new.shape.dims)
        places: dict[int, tuple[Instruction, int]] = {}
        for d, axes in cut.items():
            size, tile = sizes[d], x.shape.dims[d]
            distance = _distance(b, starts[d], of.dims[d] - size, axes, tile)
            places[d] = (distance, size)
            if size == 1:
                last = b.scalar(tile - 1, S32)
                starts[d] = b.clamp(b.scalar(0, S32), distance, last)
                continue
            # The part of the update that lies beside this device's whole tile.
            new = b.padded_both(new, d, tile, tile)
            back = b.subtract(b.scalar(0, S32), distance)
            at = b.clamp(b.scalar(-tile, S32), back, b.scalar(size, S32))
            new = b.dynamic_cut(new, d, b.add(at, b.scalar(tile, S32)), tile)
            starts[d], sizes[d] = b.scalar(0, S32), tile
        starts = [
            s if s.shape.dtype is S32 else bounded_start(b, s, of.dims[d] - update.dims[d])
            for d, s in enumerate(starts)
        ]
        old = b.emit("dynamic-slice", x, *starts, dynamic_slice_sizes=tuple(sizes))
        inside: Instruction | None = None
        for d, (distance, size) in places.items():
            here = _covered(b, distance, sizes, d, size, x.shape.dims[d])
            inside = here if inside is None else b.and_(inside, here)
        assert inside is not None, "some dimension is cut"
        new = b.select(inside, new, old)
        return [b.emit_like(i, [x, new, *starts], x.shape)]

    return by_factors(walk, i, f, emit, operands, [wanted])


def _covered(
    b: Emitter, distance: Instruction, dims: Sequence[int], d: int, size: int, tile: int
) -> Instruction:
    """Which elements are written: of an update of one element that one, if it is in the part."""
    if size == 1:
        low = b.compared(distance, b.scalar(0, S32), "GE")
        high = b.compared(distance, b.scalar(tile, S32), "LT")
        return b.spread(b.and_(low, high), dims)
    row = dims[d : d + 1]
    behind = b.subtract(b.iota(S32, row, 0), b.spread(distance, row))
    low = b.compared(behind, b.full(0, S32, row), "GE")
    here = b.and_(low, b.compared(behind, b.full(size, S32, row), "LT"))
    return b.spread(here, dims, (d,))
