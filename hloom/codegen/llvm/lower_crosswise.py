"""Tiles that lie transposed in memory: rows of the axis before the last are contiguous.

Squares of them are turned in registers. Where the whole tile lies in one piece in few registers,
its rows are picked out of it, which takes one instruction for each row and two registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.codegen.llvm.lower_shape import turned_matrix
from hloom.codegen.llvm.lower_state import KernelLowering, Rows, row_offsets, storage_of
from hloom.codegen.llvm.lower_storage import from_storage, to_storage
from hloom.codegen.llvm.values import INTEGER_OF_BITS, V
from hloom.kernel.kernel import Op
from hloom.types.dtype import DType

MOST_PICKED = 2
"""Of so many registers rows are picked that lie transposed..."""
MOST_PICKED_ODD = 8
"""... and of so many an odd number of rows, the last of which would be put together by its lanes;
with AVX2 an odd number of rows of bytes or words..."""
MOST_PICKED_NARROW = 4
"""... of no more than so many: it has no instruction that picks such of two registers."""


def is_crosswise(shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType) -> bool:
    """Whether rows of the axis before the last are contiguous, so that a transpose pays."""
    return (
        len(shape) >= 2
        and not dtype.is_complex
        and strides[-2] == 1
        and strides[-1] not in (0, 1, -1)
        and shape[-1] >= 4
        and shape[-2] >= 4
    )


def load_crosswise(
    low: KernelLowering, base: V, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType
) -> Rows:
    """A tile that lies transposed in memory."""
    e, size, kind = low.e, dtype.size_bytes, storage_of(dtype)
    height, width = shape[-2:]
    outer = row_offsets((*shape[:-2], 1), (*strides[:-2], 1))
    rows: Rows = []
    if strides[-1] == height and _is_picked(low, height, width, size):
        for start in outer:
            rows += _picked_columns(low, base, start, height, width, dtype)
        return rows
    if strides[-1] == height and _is_turned_by_chunks(low, height, width, size):
        for start in outer:
            block = [
                e.load(e.gep(base, (start + j * width) * size), kind, width) for j in range(height)
            ]
            rows += [from_storage(e, row, dtype) for row in _turned_by_chunks(low, block, size)]
        return rows
    for start in outer:
        places = [e.gep(base, (start + j * strides[-1]) * size) for j in range(width)]
        turned = turned_matrix(low, [e.load(place, kind, height) for place in places])
        rows += [from_storage(e, row, dtype) for row in turned]
    return rows


def _is_picked(low: KernelLowering, height: int, width: int, size: int) -> bool:
    """Whether each row of what lies transposed in one piece is picked out of the whole of it: the
    last of an odd number would be put together lane by lane."""
    if not height & (height - 1):
        return False
    most = MOST_PICKED_ODD if height % 2 else MOST_PICKED
    if size < 4 and not low.machine.has_avx512:
        most = min(most, MOST_PICKED_NARROW)
    return height * width * size <= most * low.machine.vector_bytes


def _is_turned_by_chunks(low: KernelLowering, height: int, width: int, size: int) -> bool:
    """Whether a tile that lies transposed in one piece fills as many registers as it has rows, each
    with several elements of every row, which one instruction brings together."""
    row = width * size
    is_register = row in (low.machine.vector_bytes, low.machine.vector_bytes // 2)
    if not low.machine.has_avx512 or not is_register or height & (height - 1):
        return False
    chunk = row // height
    return size < chunk and 4 <= chunk <= 16 and (size > 1 or low.machine.has("avx512vbmi"))


def _turned_by_chunks(low: KernelLowering, block: Rows, size: int) -> Rows:
    """The rows of a tile from the registers in which it lies transposed: what a register has of
    each row side by side, and then these chunks turned as elements."""
    e, height, lanes = low.e, len(block), block[0].lanes
    together = [at for row in range(height) for at in range(row, lanes, height)]
    return _turned_chunks(low, [e.shuffle(part, None, together) for part in block], size)


def _spread_by_chunks(low: KernelLowering, rows: Rows, size: int) -> Rows:
    """The registers in which the rows of a tile lie transposed: their chunks turned as elements,
    and then what a register has of each row spread over it."""
    e, height, lanes = low.e, len(rows), rows[0].lanes
    apart = [row * lanes // height + at for at in range(lanes // height) for row in range(height)]
    return [e.shuffle(part, None, apart) for part in _turned_chunks(low, rows, size)]


def _turned_chunks(low: KernelLowering, rows: Rows, size: int) -> Rows:
    """As many registers as each has chunks, the first of which gets all first chunks, and so on."""
    e, height = low.e, len(rows)
    if height == 4:
        turned = _turned_quarters(low, [e.bitcast(row, "i64") for row in rows])
    else:
        kind = INTEGER_OF_BITS[8 * rows[0].lanes * size // height]
        turned = turned_matrix(low, [e.bitcast(row, kind) for row in rows])
    return [e.bitcast(row, rows[0].kind) for row in turned]


def _turned_quarters(low: KernelLowering, rows: Rows) -> Rows:
    """Four registers, the first of which gets their first quarters, and so on."""

    def picked(a: V, b: V, quarters: Sequence[int]) -> V:
        length = a.lanes // 4
        return low.e.shuffle(a, b, [q * length + n for q in quarters for n in range(length)])

    halves = [
        [picked(a, b, (at, at + 1, at + 4, at + 5)) for a, b in (rows[:2], rows[2:])]
        for at in (0, 2)
    ]
    return [picked(a, b, range(at, 8, 2)) for a, b in halves for at in (0, 1)]


def _picked_columns(
    low: KernelLowering, base: V, start: int, height: int, width: int, dtype: DType
) -> Rows:
    """Every `height`-th element, from the first, from the second and so on."""
    e, size, kind, parts = low.e, dtype.size_bytes, storage_of(dtype), []
    lanes, at = height * width, start
    for count in low.widths(lanes) or (lanes,):
        parts.append(e.load(e.gep(base, at * size), kind, count))
        at += count
    block = low.joined(parts)
    picked = [e.shuffle(block, None, range(c, lanes, height)) for c in range(height)]
    return [from_storage(e, row, dtype) for row in picked]


def store_crosswise(low: KernelLowering, op: Op, base: V, rows: Rows, dtype: DType) -> None:
    """A tile stored transposed."""
    e, shape, strides = low.e, op.operands[2].shape, op.attrs["strides"]
    height, size = shape[-2], dtype.size_bytes
    flags, align = "", None
    if op.attrs.get("nontemporal"):
        low.nontemporal = True
        row = height * size
        flags, align = ", !nontemporal !0", min(low.machine.vector_bytes, row & -row)
    outer = row_offsets((*shape[:-2], 1), (*strides[:-2], 1))
    for number, start in enumerate(outer):
        block = [to_storage(e, r, dtype) for r in rows[number * height : (number + 1) * height]]
        width = block[0].lanes
        if strides[-1] == height and _is_turned_by_chunks(low, height, width, size) and not flags:
            for j, row in enumerate(_spread_by_chunks(low, block, size)):
                e.store(row, e.gep(base, (start + j * width) * size))
            continue
        for j, row in enumerate(turned_matrix(low, block)):
            e.store(row, e.gep(base, (start + j * strides[-1]) * size), align, flags)
