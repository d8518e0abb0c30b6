"""Loads and stores: tiles between registers and memory.

How a row is moved depends on the stride of the last axis. 1: one vector. 0: one scalar, splatted.
-1: one vector, turned round. 2 to 4 (reads): as many vectors as the stride says, the last of which
ends with the last element, and shuffles, so that nothing outside of the row is read. If instead
the axis before is contiguous, rows of that axis are moved and transposed in registers. All else
goes lane by lane. Masked rows are in `lower_masked.py`.

Complex numbers lie in arrays as HLO has them, real and imaginary parts in turn. In scratch that is
only read and written by whole tiles all real parts lie before all imaginary ones (`planes`), so
that they come as vectors without a shuffle.
"""

from __future__ import annotations

from hloom.base.guarding import GUARDING
from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.lower_crosswise import is_crosswise, load_crosswise, store_crosswise
from hloom.codegen.llvm.lower_masked import WIDEST_STRIDE, load_masked, store_masked
from hloom.codegen.llvm.lower_shape import lane, splatted
from hloom.codegen.llvm.lower_state import (
    Handler,
    KernelLowering,
    Rows,
    lanes_of,
    row_offsets,
    storage_of,
)
from hloom.codegen.llvm.lower_storage import address, from_storage, to_storage
from hloom.codegen.llvm.values import BITS, V
from hloom.kernel.kernel import STACK_LIMIT, Kernel, Op, Value
from hloom.types.dtype import DType


def load(low: KernelLowering, op: Op) -> Rows:
    """The tile at an offset."""
    return [] if op.result in low.deferred else load_tile(low, op)


def load_tile(low: KernelLowering, op: Op) -> Rows:
    """What a load reads, whatever is deferred."""
    buffer, offset = op.operands[:2]
    shape, strides, dtype = op.result.shape, op.attrs["strides"], op.result.dtype
    base = address(low, buffer, offset)
    if len(op.operands) == 4:
        return load_masked(low, op, base)
    if (distance := low.planes.get(buffer)) is not None:
        places, part = (base, low.e.gep(base, distance)), dtype.component
        return [row for at in places for row in _plain_rows(low, at, shape, strides, part)]
    return _plain_rows(low, base, shape, strides, dtype)


def _plain_rows(
    low: KernelLowering, base: V, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType
) -> Rows:
    """A tile whose elements lie as in arrays."""
    if is_crosswise(shape, strides, dtype):
        return load_crosswise(low, base, shape, strides, dtype)
    return load_rows(low, base, row_offsets(shape, strides), shape, strides, dtype)


def load_rows(
    low: KernelLowering,
    base: V,
    offsets: list[int],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: DType,
) -> Rows:
    """The rows that begin at these offsets, in elements from the base."""
    e, size, lanes = low.e, dtype.size_bytes, lanes_of(shape)
    stride = strides[-1] if lanes > 1 else 1
    if dtype.is_complex:
        pairs = [_complex_row(low, base, at, lanes, stride, dtype) for at in offsets]
        return [p[0] for p in pairs] + [p[1] for p in pairs]
    kind = storage_of(dtype)
    seen: dict[int, V] = {}
    rows: Rows = []
    for at in offsets:
        row = seen.get(at)
        if row is None:
            if stride == 1:
                row = _whole(low, base, at, lanes, dtype)
            elif stride == 0:
                row = from_storage(e, e.load(e.gep(base, at * size), kind), dtype)
                row = splatted(low, row, lanes)
            else:
                row = from_storage(e, _strided(low, base, at, lanes, stride, kind), dtype)
            seen[at] = row
        rows.append(row)
    return rows


def _whole(low: KernelLowering, base: V, at: int, lanes: int, dtype: DType) -> V:
    """A row whose elements lie side by side."""
    e, size, kind = low.e, dtype.size_bytes, storage_of(dtype)
    parts = []
    for width in low.widths(lanes) or (lanes,):
        parts.append(from_storage(e, e.load(e.gep(base, at * size), kind, width), dtype))
        at += width
    return low.joined(parts)


def _strided(low: KernelLowering, base: V, at: int, lanes: int, stride: int, kind: str) -> V:
    """One row whose elements do not touch, as it is in memory."""
    e, size = low.e, BITS[kind] // 8
    if stride == -1:
        row = e.load(e.gep(base, (at - lanes + 1) * size), kind, lanes)
        return e.shuffle(row, None, range(lanes - 1, -1, -1))
    step = abs(stride)
    if step > WIDEST_STRIDE or lanes < 2 * step:
        places = [e.gep(base, (at + i * stride) * size) for i in range(lanes)]
        return e.concat([e.load(place, kind) for place in places])
    first = at if stride > 0 else at + (lanes - 1) * stride
    span = (lanes - 1) * step + 1
    gathered, have = None, 0
    for number in range(step):
        start = min(number * lanes, span - lanes)
        part = e.load(e.gep(base, (first + start) * size), kind, lanes)
        # The lanes of the row that lie in this vector; those before are in `gathered`.
        last = min((start + lanes - 1) // step, lanes - 1)
        if gathered is None:
            mask = [i * step if i <= last else -1 for i in range(lanes)]
            gathered, have = e.shuffle(part, None, mask), last + 1
            continue
        mask = [i if i < have else -1 for i in range(lanes)]
        for i in range(have, last + 1):
            mask[i] = lanes + i * step - start
        gathered, have = e.shuffle(gathered, part, mask), last + 1
    assert gathered is not None
    return gathered if stride > 0 else e.shuffle(gathered, None, range(lanes - 1, -1, -1))


def _complex_row(
    low: KernelLowering, base: V, at: int, lanes: int, stride: int, dtype: DType
) -> tuple[V, V]:
    """The real and the imaginary parts of one row."""
    e, kind, size = low.e, storage_of(dtype), dtype.size_bytes
    if abs(stride) == 1 or lanes == 1:
        first = at if stride > 0 else at - lanes + 1
        both = e.load(e.gep(base, first * size), kind, 2 * lanes)
        order = range(lanes) if stride > 0 else range(lanes - 1, -1, -1)
        real = e.shuffle(both, None, [2 * i for i in order])
        return real, e.shuffle(both, None, [2 * i + 1 for i in order])
    count = 1 if stride == 0 else lanes
    parts: list[Rows] = [[], []]
    for i in range(count):
        place = e.gep(base, (at + i * stride) * size)
        parts[0].append(e.load(place, kind))
        parts[1].append(e.load(e.gep(place, size // 2), kind))
    if stride == 0:
        return e.splat(parts[0][0], lanes), e.splat(parts[1][0], lanes)
    return e.concat(parts[0]), e.concat(parts[1])


def store(low: KernelLowering, op: Op) -> Rows:
    """Writes a tile at an offset."""
    buffer, offset, value = op.operands[:3]
    shape, dtype = value.shape, buffer.dtype
    base, strides = address(low, buffer, offset), op.attrs["strides"]
    if value in low.waiting:
        low.waiting.pop(value).store(base, strides[0])
        return []
    rows = low.of(value)
    if len(op.operands) == 4:
        store_masked(low, op, base)
    elif (distance := low.planes.get(buffer)) is not None:
        half, part = len(rows) // 2, dtype.component
        _store_plain(low, op, base, rows[:half], part)
        _store_plain(low, op, low.e.gep(base, distance), rows[half:], part)
    elif dtype.is_complex:
        half = len(rows) // 2
        for at, real, imaginary in zip(row_offsets(shape, strides), rows[:half], rows[half:]):
            _store_complex(low, base, at, strides[-1] if strides else 1, real, imaginary, dtype)
    else:
        _store_plain(low, op, base, rows, dtype)
    return []


def _store_plain(low: KernelLowering, op: Op, base: V, rows: Rows, dtype: DType) -> None:
    """Rows of a tile of which each element is one number."""
    shape, strides = op.operands[2].shape, op.attrs["strides"]
    if _is_interleaved(shape, strides):
        _store_interleaved(low, base, shape, strides, rows, dtype)
    elif is_crosswise(shape, strides, dtype):
        store_crosswise(low, op, base, rows, dtype)
    else:
        flags, align = _hints(low, op, dtype)
        is_result = op.operands[2] in low.computed
        for at, row in zip(row_offsets(shape, strides), rows):
            stride = strides[-1] if row.lanes > 1 else 1
            for part in low.parts(row):
                held = to_storage(low.e, part, dtype, is_result=is_result)
                _store_row(low, base, at, stride, held, flags, align)
                at += part.lanes * stride


def _hints(low: KernelLowering, op: Op, dtype: DType) -> tuple[str, int | None]:
    """Metadata and alignment of stores that should not go through the caches."""
    if not op.attrs.get("nontemporal"):
        return "", None
    low.nontemporal = True
    row = lanes_of(op.operands[2].shape) * dtype.size_bytes
    return ", !nontemporal !0", min(low.machine.vector_bytes, row & -row)


def _store_row(
    low: KernelLowering, base: V, at: int, stride: int, row: V, flags: str, align: int | None
) -> None:
    """One row as it lies in memory."""
    e, size, lanes = low.e, BITS[row.kind] // 8, row.lanes
    if stride == 1:
        _store_in_order(low, e.gep(base, at * size), row, flags, align)
    elif stride == -1:
        turned = e.shuffle(row, None, range(lanes - 1, -1, -1))
        _store_in_order(low, e.gep(base, (at - lanes + 1) * size), turned, flags, align)
    else:
        for i in range(lanes):
            e.store(lane(low, row, i), e.gep(base, (at + i * stride) * size))


def _store_in_order(low: KernelLowering, place: V, row: V, flags: str, align: int | None) -> None:
    """A row of several registers one after the other: LLVM takes a longer vector apart and writes
    its parts in any order, and where they straddle lines of the caches each half of a line is a
    write of its own unless the other half comes next."""
    size = BITS[row.kind] // 8
    lanes = low.machine.vector_bytes // size
    if row.lanes <= lanes or row.lanes % lanes:
        low.e.store(row, place, align, flags)
        return
    for first in range(0, row.lanes, lanes):
        part = low.e.shuffle(row, None, range(first, first + lanes))
        low.e.store(part, low.e.gep(place, first * size), align, flags)


def _store_complex(
    low: KernelLowering, base: V, at: int, stride: int, real: V, imaginary: V, dtype: DType
) -> None:
    e, size, lanes = low.e, dtype.size_bytes, real.lanes
    if stride == 1 or lanes == 1:
        if lanes == 1:
            both = e.concat([real, imaginary])
        else:
            both = e.shuffle(real, imaginary, [i + p for i in range(lanes) for p in (0, lanes)])
        _store_in_order(low, e.gep(base, at * size), both, "", None)
        return
    for i in range(lanes):
        place = e.gep(base, (at + i * stride) * size)
        e.store(e.extract(real, i), place)
        e.store(e.extract(imaginary, i), e.gep(place, size // 2))


def _is_interleaved(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two to four rows are stored element by element in turn, without a gap."""
    return len(shape) >= 2 and shape[-2] in (2, 3, 4) and strides[-2:] == (1, shape[-2])


def _store_interleaved(
    low: KernelLowering,
    base: V,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    rows: Rows,
    dtype: DType,
) -> None:
    """Rows whose elements take turns, as words of them."""
    e, size, count = low.e, dtype.size_bytes, shape[-2]
    outer = row_offsets((*shape[:-2], 1), (*strides[:-2], 1))
    for number, at in enumerate(outer):
        block = [low.parts(row) for row in rows[number * count : (number + 1) * count]]
        for parts in zip(*block):
            packed = [to_storage(e, part, dtype) for part in parts]
            if count == 3:
                _store_in_threes(e, packed, e.gep(base, at * size), size)
                at += parts[0].lanes * count
                continue
            while len(packed) > 1:
                half = len(packed) // 2
                packed = [_in_turn(e, packed[i], packed[i + half]) for i in range(half)]
            _store_in_order(low, e.gep(base, at * size), packed[0], "", size)
            at += parts[0].lanes * count


def _store_in_threes(e: Emit, rows: Rows, place: V, size: int) -> None:
    """Three rows, element by element, as three vectors."""
    lanes = rows[0].lanes
    if lanes == 1:
        for k, row in enumerate(rows):
            e.store(row, e.gep(place, k * size), size)
        return
    two = e.concat([rows[0], rows[1]])
    for part in range(3):
        turns = [divmod(part * lanes + i, 3) for i in range(lanes)]
        mixed = e.shuffle(two, None, [at + min(row, 1) * lanes for at, row in turns])
        order = [i if row < 2 else lanes + at for i, (at, row) in enumerate(turns)]
        e.store(e.shuffle(mixed, rows[2], order), e.gep(place, part * lanes * size), size)


def _in_turn(e: Emit, x: V, y: V) -> V:
    """A lane of x, a lane of y, and so on."""
    if x.lanes == 1:
        return e.concat([x, y])
    return e.shuffle(x, y, [k for i in range(x.lanes) for k in (i, i + x.lanes)])


def planes_of_scratch(kernel: Kernel) -> dict[Value, int]:
    """Scratch of complex numbers that loads and stores of whole tiles alone use, and how many bytes
    from the first real part to the first imaginary one."""
    planes: dict[Value, int] = {}
    others: set[Value] = set()
    ops = kernel.ops()
    for op in ops:
        if op.opcode == "alloc" and op.result.dtype.is_complex:
            planes[op.result] = op.attrs["size"] * op.result.dtype.size_bytes // 2
    if not planes:
        return planes
    for op in ops:
        is_whole = (op.opcode, len(op.operands)) in (("load", 2), ("store", 3))
        others.update(op.operands[1:] if is_whole else op.operands)
    return {buffer: distance for buffer, distance in planes.items() if buffer not in others}


def alloc(low: KernelLowering, op: Op) -> Rows:
    """Private scratch memory on the stack, 64-byte aligned; before a protected page under guard."""
    number, size = low.stack, op.attrs["size"] * op.result.dtype.size_bytes
    low.stack += (size + 63) // 64 * 64
    if low.stack > STACK_LIMIT:
        raise low.refuse(
            op, f"takes {low.stack} bytes of stack, above {STACK_LIMIT}", "use smaller tiles"
        )
    if GUARDING:
        return [low.e.guarded(number, size)]
    return [low.e.alloca(max(1, size), 64)]


def prefetch(low: KernelLowering, op: Op) -> Rows:
    """Asks for lines of memory behind an offset."""
    buffer, offset = op.operands
    base = address(low, buffer, offset)
    for elements in op.attrs["ahead"]:
        where = low.e.gep(base, elements * buffer.dtype.size_bytes)
        low.e.prefetch(where, nearest=op.attrs["nearest"])
    return []


MEMORY: dict[str, Handler] = {
    "alloc": alloc,
    "load": load,
    "prefetch": prefetch,
    "store": store,
}
