"""Gathers and scatters: elements at a tile of offsets."""

from __future__ import annotations

from math import prod

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.known_offsets import (
    far_distances,
    known_distances,
    known_mask,
    known_number,
    known_runs,
    pieces_of,
)
from hloom.codegen.llvm.lower_masked import (
    elements_held,
    first_is_there,
    has_masks,
    masked_scalar,
)
from hloom.codegen.llvm.lower_shape import lane
from hloom.codegen.llvm.lower_state import Handler, KernelLowering, Rows, planes_of, storage_of
from hloom.codegen.llvm.lower_storage import from_storage, to_storage
from hloom.codegen.llvm.row_gathers import row_gathered, row_lanes
from hloom.codegen.llvm.small_tables import tabled
from hloom.codegen.llvm.values import BITS, V
from hloom.kernel.kernel import Op, Value
from hloom.types.dtype import DType

LEAST_PIECE_BYTES = 4
"""Narrower elements are shuffled between lanes of 16 bytes by several instructions each."""
SHUFFLE_OF_TWO = 3
"""What picking any lanes of two registers takes but with AVX-512: a shuffle of each, a blend."""


def gather(low: KernelLowering, op: Op) -> Rows:
    """Elements at a tile of offsets."""
    buffer, offsets = op.operands[:2]
    (base,), dtype = low.of(buffer), op.result.dtype
    planes, size = planes_of(dtype), dtype.size_bytes
    masked = len(op.operands) == 4
    masks = low.of(op.operands[2]) if masked else []
    others = low.of(op.operands[3]) if masked else []
    e = low.e
    known_numbers = low.known_numbers
    near = known_distances(offsets, known_numbers)
    far = None if masked else _of_planes(far_distances(offsets, known_numbers), planes)
    in_pieces = far is not None and all(_has_pieces(low, row, dtype) for row in far)
    if near is None and far is None and (group := row_lanes(low, op)):
        return [row_gathered(low, base, at, group, dtype) for at in low.of(offsets)]
    if near is None and not in_pieces and (tabled_rows := tabled(low, op)) is not None:
        if not masked:
            return tabled_rows
        return [e.select(m, x, y) for m, x, y in zip(masks, tabled_rows, others)]
    runs = None if masked or near else _of_planes(known_runs(offsets, known_numbers), planes)
    rows: Rows = []
    for plane in range(planes):
        start = e.gep(base, plane * size // planes)
        apart = None if masked and dtype.is_complex else _of_planes(near, planes)
        held_elements = elements_held(low, buffer) if masked else 0
        known = known_mask(op.operands[2], known_numbers) if masked and apart else None
        if masked and known is None and not (held_elements and has_masks(low, size)):
            apart = None
        for i, at in enumerate(low.of(offsets)):
            if apart is not None and known is not None:
                first = _first(low, offsets, i, at)
                picked = _let_through(low, start, first, apart[i], known[i], dtype)
                rows.append(e.select(masks[i], picked, others[i]))
            elif apart is not None:
                first = _first(low, offsets, i, at)
                picked = _picked(low, start, first, apart[i], dtype, held_elements)
                rows.append(e.select(masks[i], picked, others[i]) if masked else picked)
            elif runs is not None:
                first = _first(low, offsets, i, at)
                rows.append(_from_runs(low, start, first, runs[i], dtype))
            elif far is not None:
                places = e.gep(start, _bytes_of(e, _first(low, offsets, i, at), dtype.size_bytes))
                rows.append(_from_far(low, places, far[i], dtype, in_pieces))
            elif masked:
                other = others[plane * len(masks) + i]
                rows.append(_gathered_masked(low, buffer, start, at, masks[i], other, dtype))
            else:
                rows.append(_gathered(low, start, at, dtype))
    return rows


def _of_planes(apart: list[tuple[int, ...]] | None, planes: int) -> list[tuple[int, ...]] | None:
    """Distances in parts of elements, of which complex numbers have two."""
    return apart and [tuple([planes * x for x in row]) for row in apart]


def _unit(dtype: DType) -> int:
    """Bytes of what distances count: elements, or their real parts."""
    return dtype.size_bytes // planes_of(dtype)


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


def _first(low: KernelLowering, offsets: Value, row: int, at: V) -> V:
    """The offset in the first lane of a row, `at`: by the arithmetic of scalars where it is a sum
    of one number for all lanes and of known ones, so that no vector is made for it."""
    parts: list[Value] = []
    constant = 0
    pending = [offsets]
    while pending:
        x = pending.pop()
        if (number := known_number(x, row, low.known_numbers)) is not None:
            constant += number
        elif x.op is not None and x.op.opcode == "add":
            pending += x.op.operands
        elif x.op is not None and x.op.opcode == "broadcast" and prod(x.op.operands[0].shape) == 1:
            parts.append(x.op.operands[0])
        else:
            return lane(low, at, 0)
    e = low.e
    total = e.const("i64", constant)
    for x in parts:
        total = e.add(total, e.sext(lane(low, low.of(x)[0], 0), "i64"))
    return total


def _picked(
    low: KernelLowering,
    base: V,
    first: V,
    apart: tuple[int, ...],
    dtype: DType,
    held_elements: int = 0,
) -> V:
    """Elements at known distances in a short piece of memory: one load and one shuffle, or for
    each register two loads, which hold no more than what lies between the elements, and one.

    `held_elements`: the piece may begin before the buffer, or end behind so many elements; nothing
    is read there, whichever lanes a mask leaves out.
    """
    e, least, kind = low.e, min(apart), storage_of(dtype)
    places = _bytes_of(e, first, dtype.size_bytes)
    lanes = max(apart) - least + 1
    width = low.machine.vector_bytes * 8 // BITS[kind]
    if lanes > width and len(apart) > width:
        parts = [apart[k : k + width] for k in range(0, len(apart), width)]
        if held_elements:
            return low.joined([_picked(low, base, first, p, dtype, held_elements) for p in parts])
        places = e.gep(base, places)
        return low.joined([_from_two(low, places, part, dtype) for part in parts])
    place = e.gep(e.gep(base, places), least * _unit(dtype))
    if held_elements:
        start = e.add(e.sext(first, "i64"), e.const("i64", least))
        if lanes == 1:  # all of them are one element
            inside = e.icmp("ult", start, e.const("i64", held_elements))
            piece = masked_scalar(low, place, inside, e.const(kind, 0))
            return from_storage(e, e.splat(piece, len(apart)), dtype)
        numbers = e.add(e.splat(start, lanes), e.vector("i64", list(range(lanes))))
        inside = e.icmp("ult", numbers, e.const("i64", held_elements, lanes))
        piece = e.masked_load(place, inside, e.const(kind, 0, lanes))
    else:
        piece = e.load(place, kind, lanes)
    return from_storage(e, e.shuffle(piece, None, [x - least for x in apart]), dtype)


def _let_through(
    low: KernelLowering,
    base: V,
    first: V,
    apart: tuple[int, ...],
    wanted: tuple[bool, ...],
    dtype: DType,
) -> V:
    """Elements at known distances, of which a known mask wants some: all that lies between two of
    those is in the buffer. The other lanes are undefined."""
    e, kind = low.e, storage_of(dtype)
    width = low.machine.vector_bytes * 8 // BITS[kind]
    places = e.gep(base, _bytes_of(e, first, dtype.size_bytes))
    parts = []
    for k in range(0, len(apart), width):
        part, some = apart[k : k + width], wanted[k : k + width]
        if any(some):
            parts.append(_from_two(low, places, part, dtype, some))
        else:
            parts.append(from_storage(e, e.const(kind, 0, len(part)), dtype))
    return low.joined(parts)


def _from_two(
    low: KernelLowering,
    base: V,
    apart: tuple[int, ...],
    dtype: DType,
    wanted: tuple[bool, ...] = (),
) -> V:
    """A register of elements at known distances from the base, some of them if not all are wanted,
    by one load or two and a shuffle."""
    e, kind, size = low.e, storage_of(dtype), _unit(dtype)
    wanted = wanted or (True,) * len(apart)
    reads = [x for x, is_wanted in zip(apart, wanted) if is_wanted]
    least, last, width = min(reads), max(reads), len(apart)
    if last == least:
        return from_storage(e, e.splat(e.load(e.gep(base, least * size), kind), width), dtype)
    if not width < last - least + 1 <= 2 * width:
        piece = e.load(e.gep(base, least * size), kind, last - least + 1)
        picks = [x - least if is_wanted else -1 for x, is_wanted in zip(apart, wanted)]
        return from_storage(e, e.shuffle(piece, None, picks), dtype)
    second = last - width + 1
    one = e.load(e.gep(base, least * size), kind, width)
    two = e.load(e.gep(base, second * size), kind, width)
    picks = [x - least if x < least + width else width + x - second for x in apart]
    picks = [pick if is_wanted else -1 for pick, is_wanted in zip(picks, wanted)]
    return from_storage(e, e.shuffle(one, two, picks), dtype)


def _from_runs(low: KernelLowering, base: V, first: V, apart: tuple[int, ...], dtype: DType) -> V:
    """Elements at known distances, several side by side: a load for each run, of the lanes of a
    register that it fills."""
    e, kind, size = low.e, storage_of(dtype), _unit(dtype)
    places, step = e.gep(base, _bytes_of(e, first, dtype.size_bytes)), planes_of(dtype)
    width = low.machine.vector_bytes * 8 // BITS[kind]
    parts = []
    for k in range(0, len(apart), width):
        part = apart[k : k + width]
        runs = _runs(part, step)
        row = None
        for start, end in runs:
            if has_masks(low, size) and len(runs) > 1 and step == 1:
                inside = e.vector("i1", [start <= n < end for n in range(len(part))])
                place = e.gep(places, (part[start] - start) * size)
                row = e.masked_load(place, inside, row or e.const(kind, 0, len(part)))
            else:
                piece = e.load(
                    e.gep(places, part[start] * size), kind, step * (end - start - 1) + 1
                )
                if step > 1:
                    piece = e.shuffle(piece, None, list(range(0, piece.lanes, step)))
                row = piece if row is None else e.concat([row, piece])
        assert row is not None
        parts.append(from_storage(e, row, dtype))
    return low.joined(parts)


def _registers(low: KernelLowering, apart: tuple[int, ...], dtype: DType) -> list[tuple[int, ...]]:
    """The lanes of a row, as many at a time as one register has."""
    width = low.machine.vector_bytes // _unit(dtype)
    return [apart[k : k + width] for k in range(0, len(apart), width)]


def _has_pieces(low: KernelLowering, apart: tuple[int, ...], dtype: DType) -> bool:
    """Whether registers that are read as pieces of memory and shuffled together take fewer
    instructions than a load and an insertion for each lane."""
    size = _unit(dtype)
    if size < LEAST_PIECE_BYTES or max(apart) - min(apart) < low.machine.vector_bytes // size:
        return False
    shuffle = 1 if low.machine.has_avx512 else SHUFFLE_OF_TWO
    for part in _registers(low, apart, dtype):
        pieces = len(pieces_of(part, apart, low.machine.vector_bytes // size))
        if pieces + (pieces - 1) * shuffle >= 2 * len(part):
            return False
    return True


def _from_far(
    low: KernelLowering, places: V, apart: tuple[int, ...], dtype: DType, in_pieces: bool
) -> V:
    """Elements at known distances from an address, far apart: pieces of memory as long as a
    register, between the first element and the last, or a load for each."""
    e, kind, size = low.e, storage_of(dtype), _unit(dtype)
    if len(set(apart)) == 1:
        return from_storage(e, e.splat(e.load(places, kind), len(apart)), dtype)
    if not in_pieces:
        loads = [e.load(e.gep(places, x * size), kind) for x in apart]
        return from_storage(e, e.concat(loads), dtype)
    width = low.machine.vector_bytes // size
    parts = []
    for part in _registers(low, apart, dtype):
        starts = pieces_of(part, apart, width)
        piece_of = [max(n for n, start in enumerate(starts) if start <= x) for x in part]
        row = None
        for n, start in enumerate(starts):
            piece = e.load(e.gep(places, start * size), kind, width)
            picks = [x - start if of == n else -1 for x, of in zip(part, piece_of)]
            if row is None:
                row = e.shuffle(piece, None, picks)
            else:
                piece = e.shuffle(piece, None, picks)
                lanes = range(len(part))
                row = e.shuffle(row, piece, [k + len(part) * (piece_of[k] == n) for k in lanes])
        assert row is not None
        parts.append(from_storage(e, row, dtype))
    return low.joined(parts)


def _runs(apart: tuple[int, ...], step: int) -> list[tuple[int, int]]:
    """The first lane of each run of elements side by side, and the one behind its last."""
    starts = [n for n in range(len(apart)) if n == 0 or apart[n] != apart[n - 1] + step]
    return list(zip(starts, [*starts[1:], len(apart)]))


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
    if masks is None and (apart := known_runs(offsets, low.known_numbers)) is not None:
        for i, at in enumerate(places):
            parts = [to_storage(e, values[k * count + i], dtype) for k in range(planes)]
            first = _first(low, offsets, i, at)
            _store_runs(low, e.gep(base, _bytes_of(e, first, size)), apart[i], parts, size)
        return []
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


def _store_runs(
    low: KernelLowering, places: V, apart: tuple[int, ...], parts: list[V], size: int
) -> None:
    """Write elements at known distances, several side by side: a store for each run, of the lanes
    of a register that it fills. `parts`: the elements, or their real and imaginary parts."""
    e, lanes = low.e, parts[0].lanes
    for start, end in _runs(apart, 1):
        width = low.machine.vector_bytes // size
        for k in range(start, end, width):
            run = range(k, min(k + width, end))
            picks = [n + lanes * plane for n in run for plane in range(len(parts))]
            row = e.shuffle(parts[0], parts[1] if len(parts) > 1 else None, picks)
            e.store(row, e.gep(places, apart[k] * size))


GATHER: dict[str, Handler] = {"gather": gather, "scatter": scatter}
