"""Tiles of numbers and tiles rearranged: no arithmetic, mostly no instructions either.

Axes before the last are lists of rows, so moving those moves names. Only what changes the last
axis shuffles. A transpose is made of square blocks: inside each 128-bit part by interleaving
(log2 rounds of the perfect shuffle exchange rows and columns), then by moving 128-bit parts, which
every machine does in one instruction each.
"""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np

from hloom.codegen.llvm.lower_state import (
    Handler,
    KernelLowering,
    Rows,
    count_of,
    kind_of,
    lanes_of,
    planes_of,
    row_offsets,
)
from hloom.codegen.llvm.values import BITS, V
from hloom.kernel.kernel import Op
from hloom.types.convert import converted
from hloom.types.dtype import F64, DType


def constant_rows(low: KernelLowering, dtype: DType, shape: tuple[int, ...], value: Any) -> Rows:
    """The rows of a tile that holds one number of its registers' kind everywhere."""
    e, kind, lanes, count = low.e, kind_of(dtype), lanes_of(shape), count_of(shape)
    if dtype.is_complex:
        number = complex(value)
        real, imaginary = (e.const(kind, part, lanes) for part in (number.real, number.imag))
        return [real] * count + [imaginary] * count
    if kind[0] == "f":
        value = float(value)
    elif not isinstance(value, int):
        value = int(value)
    return [e.const(kind, value, lanes)] * count


def constant(low: KernelLowering, op: Op) -> Rows:
    """One number everywhere."""
    result = op.result
    value, dtype = op.attrs["value"], result.dtype
    if dtype.is_floating and dtype.bits < 32:
        # A number of the type, even where arithmetic may keep more digits than the type has.
        value = float(converted(np.array(float(value)), F64, dtype))
    return constant_rows(low, dtype, result.shape, value)


def iota(low: KernelLowering, op: Op) -> Rows:
    """0, 1, 2 .. along one axis, wrapped or rounded to the type."""
    result = op.result
    dtype, shape, axis = result.dtype, result.shape, op.attrs["axis"]
    numbers = range(shape[axis]) if dtype.is_complex else _counted(shape[axis], dtype)
    kind, lanes, e = kind_of(dtype), lanes_of(shape), low.e
    if axis == len(shape) - 1:
        rows_ = [_numbers(low, kind, list(numbers))] * count_of(shape)
    else:
        strides = [0] * len(shape)
        strides[axis] = 1
        one = [e.const(kind, n, lanes) for n in numbers]
        rows_ = [one[at] for at in row_offsets(shape, tuple(strides))]
    return rows_ + [e.const(kind, 0, lanes)] * len(rows_) if dtype.is_complex else rows_


def _numbers(low: KernelLowering, kind: str, numbers: list[Any]) -> V:
    """A row of constants."""
    parts, at = [], 0
    for width in low.widths(len(numbers)) or (len(numbers),):
        parts.append(low.e.vector(kind, numbers[at : at + width]))
        at += width
    return low.joined(parts)


def _counted(extent: int, dtype: DType) -> list[Any]:
    """The first integers as the values of a type."""
    import numpy as np

    from hloom.types.convert import converted
    from hloom.types.dtype import S32, S64

    if dtype.bits >= 32:
        return list(range(extent))
    numbers = converted(np.arange(extent), S64, dtype)
    if dtype.is_floating:
        return numbers.astype(np.float32).tolist()
    return converted(numbers, dtype, S32).tolist()


def broadcast(low: KernelLowering, op: Op) -> Rows:
    """Axes of size 1 stretched, missing leading axes added."""
    x, shape = op.operands[0], op.result.shape
    return broadcast_rows(low, low.of(x), x.shape, shape)


def broadcast_rows(
    low: KernelLowering, rows: Rows, before: tuple[int, ...], shape: tuple[int, ...]
) -> Rows:
    """As `broadcast`, of the rows of a tile of shape `before`."""
    before = (1,) * (len(shape) - len(before)) + before
    count, lanes = count_of(before), lanes_of(shape)
    if lanes_of(before) != lanes:
        rows = [splatted(low, row, lanes) for row in rows]
    strides, stride = [0] * len(shape), 1
    for axis in range(len(shape) - 2, -1, -1):
        if before[axis] != 1:
            strides[axis] = stride
            stride *= before[axis]
    order = row_offsets(shape, tuple(strides))
    return [rows[start + at] for start in range(0, len(rows), count) for at in order]


def splatted(low: KernelLowering, x: V, lanes: int) -> V:
    """A scalar in every lane of a row."""
    widths = low.widths(lanes)
    if not widths or x.value is not None:
        return low.e.splat(x, lanes)
    return low.joined([low.e.splat(x, width) for width in widths])


def reshape(low: KernelLowering, op: Op) -> Rows:
    """The same elements in row-major order."""
    x = op.operands[0]
    return regrouped(low, low.of(x), lanes_of(x.shape), lanes_of(op.result.shape))


def regrouped(low: KernelLowering, rows: Rows, before: int, lanes: int) -> Rows:
    """Rows of `before` lanes as rows of `lanes` lanes."""
    if before == lanes:
        return rows
    width = gcd(before, lanes)
    pieces = [part for row in rows for part in low.split(row, width)]
    group = lanes // width
    if group == 1:
        return pieces
    return [low.joined(pieces[at : at + group]) for at in range(0, len(pieces), group)]


def slice_(low: KernelLowering, op: Op) -> Rows:
    """Part of one axis."""
    x, attrs = op.operands[0], op.attrs
    axis, start, size, shape = attrs["axis"], attrs["start"], attrs["size"], x.shape
    rows = low.of(x)
    if axis == len(shape) - 1:
        return [low.cut(row, start, size) for row in rows]
    inner = count_of(shape[axis + 1 :])
    block = inner * shape[axis]
    first, length = start * inner, size * inner
    return [row for at in range(first, len(rows), block) for row in rows[at : at + length]]


def concatenate(low: KernelLowering, op: Op) -> Rows:
    """Tiles joined along one axis."""
    if op.result in low.deferred:
        return []
    axis = op.attrs["axis"]
    parts = [low.of(x) for x in op.operands]
    if axis == len(op.result.shape) - 1:
        return [low.joined(row) for row in zip(*parts)]
    blocks = [count_of(x.shape[axis:]) for x in op.operands]
    joined: Rows = []
    for i in range(len(parts[0]) // blocks[0]):
        for rows, block in zip(parts, blocks):
            joined += rows[i * block : (i + 1) * block]
    return joined


def transpose(low: KernelLowering, op: Op) -> Rows:
    """Axis i of the result is axis permutation[i]."""
    x, order, shape = op.operands[0], op.attrs["permutation"], op.operands[0].shape
    rows, planes = low.of(x), planes_of(x.dtype)
    count = len(rows) // planes
    turned: Rows = []
    for plane in range(planes):
        turned += _transposed(low, rows[plane * count : (plane + 1) * count], shape, order)
    return turned


def _transposed(
    low: KernelLowering, rows: Rows, shape: tuple[int, ...], order: tuple[int, ...]
) -> Rows:
    """One plane of a tile with its axes permuted."""
    rank = len(shape)
    strides, stride = [0] * rank, 1
    for axis in range(rank - 2, -1, -1):
        strides[axis] = stride
        stride *= shape[axis]
    result = tuple([shape[axis] for axis in order])
    if rank < 2 or order[-1] == rank - 1:
        return [rows[at] for at in row_offsets(result, tuple([strides[a] for a in order]))]
    across = order[-1]
    turned: dict[int, Rows] = {}
    # Rows of the result whose index along the old last axis is 0 name the squares to turn.
    where = row_offsets(result, tuple([strides[a] for a in order]))
    lane = row_offsets(result, tuple([1 if a == rank - 1 else 0 for a in order]))
    turned_all: Rows = []
    for at, i in zip(where, lane):
        turned_rows = turned.get(at)
        if turned_rows is None:
            step = strides[across]
            square = [rows[at + j * step] for j in range(shape[across])]
            turned_rows = turned[at] = turned_matrix(low, square)
        turned_all.append(turned_rows[i])
    return turned_all


# -- the transpose of a matrix of registers


def turned_matrix(low: KernelLowering, rows: Rows) -> Rows:
    """Columns as rows: R rows of C lanes become C rows of R lanes."""
    e, kind = low.e, rows[0].kind
    if kind == "i1":
        turned = turned_matrix(low, [e.zext(row, "i8") for row in rows])
        return [e.icmp("ne", row, e.like(row, 0)) for row in turned]
    size = BITS[kind] // 8
    most = min(16, low.machine.vector_bytes // size)
    across, down = _chunks(rows[0].lanes, most), _chunks(len(rows), most)
    turned_rows: Rows = []
    column = 0
    for width in across:
        parts = [low.cut(row, column, width) for row in rows]
        column += width
        bands: list[Rows] = []
        start = 0
        for height in down:
            bands.append(_turned_block(low, parts[start : start + height], width, size))
            start += height
        turned_rows += [low.joined(pieces) for pieces in zip(*bands)]
    return turned_rows


def _chunks(extent: int, most: int) -> list[int]:
    """Powers of two, none above `most`, whose sum is the extent, the larger first."""
    sizes = []
    while extent:
        size = min(most, 1 << (extent.bit_length() - 1))
        sizes.append(size)
        extent -= size
    return sizes


def _turned_block(low: KernelLowering, rows: Rows, width: int, size: int) -> Rows:
    """A block whose height and width are powers of two, made of squares."""
    height = len(rows)
    if width == 1:
        return [low.joined(rows)]
    if height == 1:
        return low.split(rows[0], 1)
    if height < width:
        turned: Rows = []
        for at in range(0, width, height):
            turned += _turned_square(low, [low.cut(row, at, height) for row in rows], size)
        return turned
    bands = [_turned_square(low, rows[at : at + width], size) for at in range(0, height, width)]
    return [low.joined(pieces) for pieces in zip(*bands)]


def _turned_square(low: KernelLowering, rows: Rows, size: int) -> Rows:
    """n rows of n elements of `size` bytes, n a power of two; at most four parts of 128 bits."""
    e, n = low.e, len(rows)
    part = min(n, 16 // size)
    first, second = _interleavings(n, part)
    bands: list[Rows] = []
    for at in range(0, n, part):
        band, half = rows[at : at + part], part // 2
        for _ in range(part.bit_length() - 1):
            band = [
                e.shuffle(band[i], band[i + half], mask)
                for i in range(half)
                for mask in (first, second)
            ]
        bands.append(band)
    if n == part:
        return bands[0]
    bands = [[_left_alone(low, row, size) for row in band] for band in bands]
    even = _parts(part, n // part, 0)
    odd = _parts(part, n // part, 1)
    if len(bands) == 2:
        a, b = bands
        pairs = list(zip(a, b))
        return [e.shuffle(x, y, even) for x, y in pairs] + [e.shuffle(x, y, odd) for x, y in pairs]
    quarters: list[Rows] = [[], [], [], []]
    for a, b, c, d in zip(*bands):
        for mask, k in ((even, 0), (odd, 1)):
            left, right = e.shuffle(a, b, mask), e.shuffle(c, d, mask)
            quarters[k].append(e.shuffle(left, right, even))
            quarters[k + 2].append(e.shuffle(left, right, odd))
    return [row for group in quarters for row in group]


def _left_alone(low: KernelLowering, row: V, size: int) -> V:
    """The row, whose shuffles LLVM does not try to join with later ones: these are the best there
    are, and looking for better ones takes it half the time of a kernel."""
    row_bytes = row.lanes * size
    if not low.machine.is_x86 or row.lanes == 1 or row_bytes > low.machine.vector_bytes:
        return row
    # There are fences of floats only.
    kind, width = ("f64", 8) if size == 8 else ("f32", 4)
    if row_bytes % width or row_bytes < 16:
        return row
    e = low.e
    fenced = e.intrinsic("arithmetic.fence", e.bitcast(row, kind, row_bytes // width))
    return e.bitcast(fenced, row.kind, row.lanes)


def _interleavings(n: int, part: int) -> tuple[list[int], list[int]]:
    """The shuffles of two rows that interleave the low and the high halves of each part."""
    half = part // 2
    low, high = [], []
    for start in range(0, n, part):
        for i in range(half):
            low += [start + i, n + start + i]
            high += [start + half + i, n + start + half + i]
    return low, high


def _parts(part: int, count: int, parity: int) -> list[int]:
    """The shuffle that picks the even or odd parts of two rows of `count` parts."""
    chosen = range(parity, 2 * count, 2)
    return [p * part + i for p in chosen for i in range(part)]


def lane(low: KernelLowering, row: V, at: int) -> V:
    """One lane of a row as a scalar."""
    return low.cut(row, at, 1)


SHAPE: dict[str, Handler] = {
    "broadcast": broadcast,
    "concatenate": concatenate,
    "constant": constant,
    "iota": iota,
    "reshape": reshape,
    "slice": slice_,
    "transpose": transpose,
}
