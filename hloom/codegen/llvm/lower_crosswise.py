"""Tiles that lie transposed in memory: rows of the axis before the last are contiguous.

Squares of them are turned in registers. Where the whole tile lies in one piece in few registers,
its rows are picked out of it, which takes one instruction for each row and two registers.
"""

from __future__ import annotations

from hloom.codegen.llvm.lower_shape import turned_matrix
from hloom.codegen.llvm.lower_state import KernelLowering, Rows, row_offsets, storage_of
from hloom.codegen.llvm.lower_storage import from_storage, to_storage
from hloom.codegen.llvm.values import V
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
        for j, row in enumerate(turned_matrix(low, block)):
            e.store(row, e.gep(base, (start + j * strides[-1]) * size), align, flags)
