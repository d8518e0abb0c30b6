"""Gathers and scatters: elements at a tile of offsets."""

from __future__ import annotations

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.known_offsets import known_distances
from hloom.codegen.llvm.lower_masked import (
    elements_held,
    first_is_there,
    has_masks,
    masked_scalar,
)
from hloom.codegen.llvm.lower_shape import lane
from hloom.codegen.llvm.lower_state import Handler, KernelLowering, Rows, planes_of, storage_of
from hloom.codegen.llvm.lower_storage import from_storage, to_storage
from hloom.codegen.llvm.values import BITS, V
from hloom.kernel.kernel import Op, Value
from hloom.types.dtype import DType


def gather(low: KernelLowering, op: Op) -> Rows:
    """Elements at a tile of offsets."""
    buffer, offsets = op.operands[:2]
    (base,), dtype = low.of(buffer), op.result.dtype
    planes, size = planes_of(dtype), dtype.size_bytes
    masked = len(op.operands) == 4
    masks = low.of(op.operands[2]) if masked else []
    others = low.of(op.operands[3]) if masked else []
    e = low.e
    rows: Rows = []
    for plane in range(planes):
        start = e.gep(base, plane * size // planes)
        apart = None if dtype.is_complex else known_distances(offsets)
        held_elements = elements_held(low, buffer) if masked else 0
        if masked and not (held_elements and has_masks(low, size)):
            apart = None
        for i, at in enumerate(low.of(offsets)):
            if apart is not None:
                picked = _picked(low, start, at, apart[i], dtype, held_elements)
                rows.append(e.select(masks[i], picked, others[i]) if masked else picked)
            elif masked:
                other = others[plane * len(masks) + i]
                rows.append(_gathered_masked(low, buffer, start, at, masks[i], other, dtype))
            else:
                rows.append(_gathered(low, start, at, dtype))
    return rows


def _bytes_of(e: Emit, at: V, size: int) -> V:
    """Offsets in elements as offsets in bytes."""
    wide = e.sext(at, "i64")
    return e.mul(wide, e.like(wide, size))


def _gathered(low: KernelLowering, base: V, at: V, dtype: DType) -> V:
    """Without a mask: scalar loads, which no machine of today gathers faster than."""
    e, kind = low.e, storage_of(dtype)
    if at.lanes == 1:
        return from_storage(e, e.load(e.gep(base, _bytes_of(e, at, dtype.size_bytes)), kind), dtype)
    places = [_bytes_of(e, lane(low, at, i), dtype.size_bytes) for i in range(at.lanes)]
    loaded = e.concat([e.load(e.gep(base, place), kind) for place in places])
    return from_storage(e, loaded, dtype)


def _picked(
    low: KernelLowering,
    base: V,
    at: V,
    apart: tuple[int, ...],
    dtype: DType,
    held_elements: int = 0,
) -> V:
    """Elements at known distances in a short piece of memory: one load and one shuffle, or for
    each register two loads, which hold no more than what lies between the elements, and one.

    `held_elements`: the piece may begin before the buffer, or end behind so many elements; nothing
    is read there, whichever lanes a mask leaves out.
    """
    e, least = low.e, min(apart)
    places = _bytes_of(e, lane(low, at, 0), dtype.size_bytes)
    first = e.gep(e.gep(base, places), least * dtype.size_bytes)
    kind, lanes = storage_of(dtype), max(apart) - least + 1
    width = low.machine.vector_bytes * 8 // BITS[kind]
    if not held_elements and lanes > width:
        parts = [apart[k : k + width] for k in range(0, len(apart), width)]
        places = e.gep(base, places)
        return low.joined([_from_two(low, places, part, dtype) for part in parts])
    if held_elements:
        start = e.add(e.sext(lane(low, at, 0), "i64"), e.const("i64", least))
        numbers = e.add(e.splat(start, lanes), e.vector("i64", list(range(lanes))))
        inside = e.icmp("ult", numbers, e.const("i64", held_elements, lanes))
        piece = e.masked_load(first, inside, e.const(kind, 0, lanes))
    else:
        piece = e.load(first, kind, lanes)
    return from_storage(e, e.shuffle(piece, None, [x - least for x in apart]), dtype)


def _from_two(low: KernelLowering, base: V, apart: tuple[int, ...], dtype: DType) -> V:
    """A register of elements at known distances from the base."""
    e, kind, size = low.e, storage_of(dtype), dtype.size_bytes
    least, last, width = min(apart), max(apart), len(apart)
    if not width < last - least + 1 <= 2 * width:
        piece = e.load(e.gep(base, least * size), kind, last - least + 1)
        return from_storage(e, e.shuffle(piece, None, [x - least for x in apart]), dtype)
    second = last - width + 1
    one = e.load(e.gep(base, least * size), kind, width)
    two = e.load(e.gep(base, second * size), kind, width)
    picks = [x - least if x < least + width else width + x - second for x in apart]
    return from_storage(e, e.shuffle(one, two, picks), dtype)


def _gathered_masked(
    low: KernelLowering, buffer: Value, base: V, at: V, mask: V, other: V, dtype: DType
) -> V:
    """Lanes that the mask excludes read the first element instead: a branch for each lane, which
    is what LLVM makes of a masked gather, takes longer to run and several times as long to compile.
    """
    e = low.e
    if first_is_there(low, buffer):
        gathered = _gathered(low, base, e.select(mask, at, e.like(at, 0)), dtype)
        return e.select(mask, gathered, other)
    place = e.gep(base, _bytes_of(e, at, dtype.size_bytes))
    blank = e.const(storage_of(dtype), 0, at.lanes)
    if at.lanes == 1:
        gathered = masked_scalar(low, place, mask, blank)
    else:
        gathered = e.gather(place, mask, blank)
    return e.select(mask, from_storage(e, gathered, dtype), other)


def scatter(low: KernelLowering, op: Op) -> Rows:
    """Writes elements at a tile of offsets; the last lane wins where offsets are equal."""
    e = low.e
    buffer, offsets, value = op.operands[:3]
    (base,), dtype = low.of(buffer), buffer.dtype
    planes, size = planes_of(dtype), dtype.size_bytes
    places, values = low.of(offsets), low.of(value)
    masks = low.of(op.operands[3]) if len(op.operands) == 4 else None
    count = len(places)
    for plane in range(planes):
        start = e.gep(base, plane * size // planes)
        for i, at in enumerate(places):
            row = to_storage(e, values[plane * count + i], dtype)
            if masks is None:
                for k in range(row.lanes):
                    place = e.gep(start, _bytes_of(e, lane(low, at, k), size))
                    e.store(lane(low, row, k), place)
            elif row.lanes == 1:
                two = e.concat([masks[i], e.const("i1", 0)])
                place = e.gep(start, _bytes_of(e, at, size))
                e.masked_store(e.splat(row, 2), place, two)
            else:
                e.scatter(row, e.gep(start, _bytes_of(e, at, size)), masks[i])
    return []


GATHER: dict[str, Handler] = {"gather": gather, "scatter": scatter}
