"""Loads and stores of which a mask says the elements; what it excludes is not touched.

Rows of stride 1 use LLVM's masked instructions, as do reads of stride 2 to 4 that shuffles then
join, where the machine has such instructions. Other reads go lane by lane, and those that the mask
excludes read the first element of the buffer: LLVM would write a branch for each lane, which took
six times as long to compile. Stores have branches.
"""

from __future__ import annotations

from hloom.codegen.llvm.known_lanes import rows_that_exclude
from hloom.codegen.llvm.lower_shape import lane
from hloom.codegen.llvm.lower_state import (
    Joined,
    KernelLowering,
    Rows,
    lanes_of,
    planes_of,
    row_offsets,
    storage_of,
)
from hloom.codegen.llvm.lower_storage import from_storage, to_storage
from hloom.codegen.llvm.values import V
from hloom.kernel.kernel import Op, Value
from hloom.types.dtype import DType

WIDEST_STRIDE = 4
"""Reads of larger strides, masked or not, go element by element."""


def places_of(low: KernelLowering, base: V, at: int, lanes: int, stride: int, size: int) -> V:
    """The address of each lane of a row."""
    e = low.e
    return e.gep(base, e.vector("i64", [(at + i * stride) * size for i in range(lanes)]))


def load_masked(low: KernelLowering, op: Op, base: V) -> Rows:
    mask, other = op.operands[2:]
    e, shape, strides, dtype = low.e, op.result.shape, op.attrs["strides"], op.result.dtype
    size, planes = dtype.size_bytes, planes_of(dtype)
    stride = strides[-1] if lanes_of(shape) > 1 else 1
    # What a mask never lets through may be anything to LLVM when a shuffle does not ask for it: it
    # then reads whole vectors, past the array. Where it can know of such lanes, elements are read
    # one by one.
    excluding = rows_that_exclude(mask) if stride > 1 else []
    masks, others = low.of(mask), low.of(other)
    count = len(masks)
    home = near = None
    if first_is_there(low, op.operands[0]):
        (offset,) = low.of(op.operands[1])
        home = e.mul(e.sext(offset, "i64"), e.const("i64", -size))
        if op.attrs.get("far"):
            base, home, near = _near(low, op, base, home)
    if stride == 1 and not dtype.is_complex and not has_masks(low, size):
        whole = _whole_rows(low, op, base, masks, others, home, near)
        if whole is not None:
            return whole
    rows: Rows = []
    for plane in range(planes):
        start = e.gep(base, plane * size // planes)
        for i, at in enumerate(row_offsets(shape, strides)):
            instead = others[plane * count + i]
            widest = 1 if excluding and excluding[i] else WIDEST_STRIDE
            rows.append(_masked_row(low, start, at, stride, masks[i], instead, dtype, home, widest))
    return rows


def _whole_rows(
    low: KernelLowering,
    op: Op,
    base: V,
    masks: Rows,
    others: Rows,
    home: V | None,
    near: V | None,
) -> Rows | None:
    """Rows of elements that the machine has no masked loads for, as plain loads where the whole
    tile lies in the buffer, and lane by lane where it reaches over an end of it; None where what
    the mask excludes may not be read. Where `near` is false the base is that of the buffer.
    """
    e, shape, strides, dtype = low.e, op.result.shape, op.attrs["strides"], op.result.dtype
    held = elements_held(low, op.operands[0])
    extent = sum((n - 1) * s for n, s in zip(shape, strides))
    if lanes_of(shape) == 1 or min(strides) < 0 or not extent < held:
        return None
    # A mask that is known may leave these alone, and what branches bring together is one register.
    others = [e.concat(row.parts) if isinstance(row, Joined) else row for row in others]
    (offset,) = low.of(op.operands[1])
    spare = e.const("i64", held - extent)
    is_inside = e.icmp("ult", e.sext(offset, "i64"), spare)
    if near is not None:
        is_inside = e.or_(is_inside, e.not_(near))
    names = [e.fresh(stem) for stem in ("whole", "lanes", "join")]
    e.cond_br(is_inside, names[0], names[1])
    arms: list[tuple[Rows, str]] = []
    for name in names[:2]:
        e.block(name, dominated=True)
        e.open_scope()
        rows: Rows = []
        for i, at in enumerate(row_offsets(shape, strides)):
            if name == names[0]:
                row = e.load(e.gep(base, at * dtype.size_bytes), storage_of(dtype), masks[i].lanes)
                rows.append(e.select(masks[i], from_storage(e, row, dtype), others[i]))
            else:
                rows.append(_masked_row(low, base, at, 1, masks[i], others[i], dtype, home))
        arms.append((rows, e.label))
        e.close_scope()
        e.br(names[2])
    e.block(names[2], dominated=True)
    return [e.phi([(a, arms[0][1]), (b, arms[1][1])]) for a, b in zip(arms[0][0], arms[1][0])]


def _near(low: KernelLowering, op: Op, base: V, home: V) -> tuple[V, V, V]:
    """The address of a tile, how far from it the first element lies, and whether any of the tile is
    in the buffer: else the address is that of the first element, so that nothing is read.

    What a masked load excludes may be where no memory is, but that costs hundreds of cycles.
    """
    e = low.e
    (offset,) = low.of(op.operands[1])
    extent = sum((n - 1) * s for n, s in zip(op.result.shape, op.attrs["strides"]) if s > 0)
    before = sum((n - 1) * s for n, s in zip(op.result.shape, op.attrs["strides"]) if s < 0)
    [size] = [p.size for p in low.kernel.params if p.value is op.operands[0]]
    at = e.add(e.sext(offset, "i64"), e.const("i64", extent))
    is_near = e.icmp("ult", at, e.const("i64", size + extent - before))
    zero = e.const("i64", 0)
    return e.gep(base, e.select(is_near, zero, home)), e.select(is_near, home, zero), is_near


def _masked_row(
    low: KernelLowering,
    base: V,
    at: int,
    stride: int,
    mask: V,
    other: V,
    dtype: DType,
    home: V | None,
    widest: int = WIDEST_STRIDE,
) -> V:
    """One row; `home` is how many bytes from the base the first element of the buffer lies. Rows
    of strides above `widest` are read element by element."""
    e, size, lanes = low.e, dtype.size_bytes, mask.lanes
    blank = e.const(storage_of(dtype), 0, lanes)
    if lanes == 1:
        # A vector of one lane is what the masked intrinsics take; two are never split worse.
        loaded = masked_scalar(low, e.gep(base, at * size), mask, blank)
    elif stride == 1 and not dtype.is_complex and (home is None or has_masks(low, size)):
        return _masked_side_by_side(low, base, at, mask, other, dtype)
    elif 2 <= stride <= widest and not dtype.is_complex and has_masks(low, size):
        loaded = _masked_apart(low, base, at, stride, mask, blank, size)
    elif home is not None:
        # Excluded lanes read the first element, as those of gathers do.
        apart = e.vector("i64", [(at + i * stride) * size for i in range(lanes)])
        apart = e.select(mask, apart, e.splat(home, lanes))
        places = [e.gep(base, lane(low, apart, i)) for i in range(lanes)]
        loaded = e.concat([e.load(place, storage_of(dtype)) for place in places])
    else:
        loaded = e.gather(places_of(low, base, at, lanes, stride, size), mask, blank)
    return e.select(mask, from_storage(e, loaded, dtype), other)


def _masked_side_by_side(
    low: KernelLowering, base: V, at: int, mask: V, other: V, dtype: DType
) -> V:
    """A row of stride 1, in the parts in which rows of so many lanes are computed: LLVM takes the
    mask of 48 lanes apart bit by bit, in each step of a loop."""
    e, size = low.e, dtype.size_bytes
    rows: Rows = []
    for part, instead in zip(low.parts(mask), low.parts(other), strict=True):
        blank, place = e.const(storage_of(dtype), 0, part.lanes), e.gep(base, at * size)
        if part.lanes == 1:  # what is left of 17
            loaded = masked_scalar(low, place, part, blank)
        else:
            loaded = e.masked_load(place, part, blank)
        rows.append(e.select(part, from_storage(e, loaded, dtype), instead))
        at += part.lanes
    return low.joined(rows)


def first_is_there(low: KernelLowering, buffer: Value) -> bool:
    """Whether a buffer has a first element, which may then be read whatever a mask says."""
    if buffer.op is not None:
        return buffer.op.opcode == "alloc" and buffer.op.attrs["size"] > 0
    return any(p.value is buffer and p.size > 0 for p in low.kernel.params)


def elements_held(low: KernelLowering, buffer: Value) -> int:
    """How many elements may be read of a buffer whatever a mask says; 0 where that is not known, or
    where others may write what is read."""
    if buffer.op is not None:
        return buffer.op.attrs["size"] if buffer.op.opcode == "alloc" else 0
    return next((p.size for p in low.kernel.params if p.value is buffer and p.role == "in"), 0)


def has_masks(low: KernelLowering, size: int) -> bool:
    """Whether the machine loads vectors of elements of so many bytes under a mask."""
    return low.machine.has_avx512 or (low.machine.has_avx2 and size >= 4)


def _masked_apart(
    low: KernelLowering, base: V, at: int, stride: int, mask: V, blank: V, size: int
) -> V:
    """A row of a small stride: as many vectors as the stride says, of which the mask lets through
    only elements of the row, and shuffles."""
    e, lanes = low.e, mask.lanes
    nothing = e.const("i1", 0, lanes)
    joined = blank
    for number in range(stride):
        start = number * lanes
        places = [divmod(start + k, stride) for k in range(lanes)]
        allowed = e.shuffle(mask, nothing, [q if r == 0 else lanes for q, r in places])
        part = e.masked_load(e.gep(base, (at + start) * size), allowed, blank)
        order = [i * stride - start for i in range(lanes)]
        joined = e.shuffle(
            joined, part, [lanes + k if 0 <= k < lanes else i for i, k in enumerate(order)]
        )
    return joined


def masked_scalar(low: KernelLowering, place: V, mask: V, blank: V) -> V:
    """A scalar that is read only where the mask holds."""
    e = low.e
    two = e.concat([mask, e.const("i1", 0)])
    return e.extract(e.masked_load(place, two, e.splat(blank, 2)), 0)


def store_masked(low: KernelLowering, op: Op, base: V) -> None:
    value, mask = op.operands[2:]
    e, strides, dtype = low.e, op.attrs["strides"], op.operands[0].dtype
    size, planes = dtype.size_bytes, planes_of(dtype)
    masks, rows = low.of(mask), low.of(value)
    count = len(masks)
    for i, at in enumerate(row_offsets(value.shape, strides)):
        for plane in range(planes):
            row = to_storage(e, rows[plane * count + i], dtype)
            start, keep, lanes = e.gep(base, plane * size // planes), masks[i], row.lanes
            stride = strides[-1] if lanes > 1 else 1
            if stride == 1 and (lanes == 1 or not dtype.is_complex):
                _store_parts(low, row, start, at, keep, size)
            else:
                e.scatter(row, places_of(low, start, at, lanes, stride, size), keep)


def _store_parts(low: KernelLowering, row: V, base: V, at: int, mask: V, size: int) -> None:
    """A row of stride 1, in the parts in which it is computed."""
    e = low.e
    for part, kept in zip(low.parts(row), low.parts(mask), strict=True):
        place = e.gep(base, at * size)
        if part.lanes == 1:
            e.masked_store(e.splat(part, 2), place, e.concat([kept, e.const("i1", 0)]))
        else:
            e.masked_store(part, place, kept)
        at += part.lanes
