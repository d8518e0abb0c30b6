"""Reductions and scans of tiles: trees of vectors, made of the same functions as arithmetic.

Along rows whole vectors are combined pairwise. Along the last axis a row is folded to the width of
a register first, then halved by shuffles; many rows are halved together, two registers into one,
so that n rows of n lanes take n - 1 steps and not n log n. HLO lets a reduction be in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.lower_element import folding
from hloom.codegen.llvm.lower_shape import constant_rows
from hloom.codegen.llvm.lower_state import Handler, KernelLowering, Rows, count_of, planes_of
from hloom.codegen.llvm.lower_storage import from_storage, to_storage
from hloom.codegen.llvm.values import BITS, V
from hloom.kernel.kernel import Op
from hloom.types.dtype import PRED, U8, DType

Item = tuple[V, ...]
"""One row: a vector, or the real and the imaginary vector."""
Combine = Callable[[Item, Item], Item]


def items_of(low: KernelLowering, rows: Rows, dtype: DType) -> list[Item]:
    """Rows as items."""
    if planes_of(dtype) == 1:
        return [(row,) for row in rows]
    half = len(rows) // 2
    return list(zip(rows[:half], rows[half:]))


def rows_of(items: list[Item]) -> Rows:
    """Items as rows."""
    return [item[plane] for plane in range(len(items[0])) for item in items]


def reduce(low: KernelLowering, op: Op) -> Rows:
    """One axis folded."""
    x, axis, kind = op.operands[0], op.attrs["axis"], op.attrs["kind"]
    dtype, shape = x.dtype, x.shape
    combine = folding(low, kind, dtype)
    items = items_of(low, low.of(x), dtype)
    if axis == len(shape) - 1:
        return _reduced_last(low, items, combine, op)
    inner = count_of(shape[axis + 1 :])
    extent = shape[axis]
    folded: list[Item] = []
    for start in range(0, len(items), inner * extent):
        for at in range(start, start + inner):
            folded.append(_tree([items[at + k * inner] for k in range(extent)], combine))
    return rows_of(folded)


def _tree(items: list[Item], combine: Combine) -> Item:
    """All items combined, neighbours first."""
    while len(items) > 1:
        paired = [combine(a, b) for a, b in zip(items[::2], items[1::2])]
        items = paired + items[len(paired) * 2 :]
    return items[0]


def _reduced_last(low: KernelLowering, items: list[Item], combine: Combine, op: Op) -> Rows:
    """Each row folded to one number; the numbers are the rows of the result."""
    e, shape = low.e, op.result.shape
    numbers = folded_rows(low, items, combine)
    lanes = shape[-1] if shape else 1
    if lanes == 1:
        return rows_of([part for item in numbers for part in lanes_of_item(e, item)])
    return rows_of(_packed(low, numbers, lanes))


def lanes_of_item(e: Emit, item: Item) -> list[Item]:
    """Each lane of an item as an item."""
    count = item[0].lanes
    if count == 1:
        return [item]
    return [tuple([e.extract(part, i) for part in item]) for i in range(count)]


def _packed(low: KernelLowering, numbers: list[Item], lanes: int) -> list[Item]:
    """Items of any widths that divide `lanes` or are 1, regrouped into rows of `lanes`."""
    glued: list[Item] = []
    group: list[Item] = []
    have = 0
    for item in numbers:
        width = item[0].lanes
        if have + width > lanes:  # a group of rows that crosses rows of the result
            singles = [lane for one in [*group, item] for lane in lanes_of_item(low.e, one)]
            group, have = [], 0
            for single in singles:
                group.append(single)
                have += 1
                if have == lanes:
                    glued.append(_glued(low, group))
                    group, have = [], 0
            continue
        group.append(item)
        have += width
        if have == lanes:
            glued.append(_glued(low, group))
            group, have = [], 0
    return glued


def _glued(low: KernelLowering, group: list[Item]) -> Item:
    return tuple([low.joined([item[p] for item in group]) for p in range(len(group[0]))])


def folded_rows(low: KernelLowering, items: list[Item], combine: Combine) -> list[Item]:
    """Each row folded; items of the result hold the numbers of one or several rows, in order."""
    e, first = low.e, items[0][0]
    lanes = first.lanes
    most = low.machine.lanes(max(8, BITS[first.kind]))
    width = min(most, 1 << (lanes.bit_length() - 1))
    if lanes == 1:
        return items
    folded: list[Item] = []
    at = 0
    while at < len(items):
        many = len(items) - at
        group = min(width, 1 << (many.bit_length() - 1)) if lanes % width == 0 else 1
        if group == 1:
            folded.append(_folded_row(low, items[at], width, combine))
        else:
            level = [_narrowed(low, item, width, combine) for item in items[at : at + group]]
            folded.append(_folded_together(e, level, width, combine))
        at += group
    return folded


def _cut(low: KernelLowering, item: Item, start: int, width: int) -> Item:
    return tuple([low.cut(part, start, width) for part in item])


def _narrowed(low: KernelLowering, item: Item, width: int, combine: Combine) -> Item:
    """The parts of `width` lanes of a row combined; what is left over is not looked at."""
    whole = item[0].lanes // width
    if whole == 1 and item[0].lanes == width:
        return item
    return _tree([_cut(low, item, i * width, width) for i in range(whole)], combine)


def _folded_row(low: KernelLowering, item: Item, width: int, combine: Combine) -> Item:
    """One row of any number of lanes folded."""
    lanes = item[0].lanes
    now = _narrowed(low, item, width, combine)
    at = lanes - lanes % width
    while True:
        if lanes - at >= width:
            now = combine(now, _cut(low, item, at, width))
            at += width
        if width == 1:
            return now
        half = width // 2
        now = combine(_cut(low, now, 0, half), _cut(low, now, half, half))
        width = half


def _folded_together(e: Emit, items: list[Item], width: int, combine: Combine) -> Item:
    """A power of two of rows of `width` lanes, as one item with the number of each."""
    segment = width
    while segment > 1:
        half = segment // 2
        starts = range(0, width, segment)
        if len(items) > 1:
            first = [s + i for s in starts for i in range(half)]
            low = first + [width + i for i in first]
            high = [i + half for i in low]
            items = [
                combine(_both(e, a, b, low), _both(e, a, b, high))
                for a, b in zip(items[::2], items[1::2])
            ]
        else:
            lanes = items[0][0].lanes
            starts = range(0, lanes, segment)
            low = [s + i for s in starts for i in range(half)]
            high = [i + half for i in low]
            (a,) = items
            items = [combine(_both(e, a, None, low), _both(e, a, None, high))]
        segment = half
    return items[0]


def _both(e: Emit, a: Item, b: Item | None, mask: list[int]) -> Item:
    if b is None:
        return tuple([e.shuffle(part, None, mask) for part in a])
    return tuple([e.shuffle(x, y, mask) for x, y in zip(a, b)])


# -- scans


def identity(dtype: DType, kind: str) -> float | int:
    """What a fold leaves as it is."""
    if kind == "add":
        return -0.0 if dtype.is_floating else 0
    if kind == "multiply":
        return 1
    if kind in ("or", "xor"):
        return 0
    if kind == "and":
        return 1 if dtype.is_pred else -1
    if dtype.is_floating:
        return float("-inf") if kind == "maximum" else float("inf")
    if dtype.is_pred:
        return 0 if kind == "maximum" else 1
    from hloom.types.limits import integer_range

    least, most = integer_range(dtype)
    return least if kind == "maximum" else most


def scan(low: KernelLowering, op: Op) -> Rows:
    """The inclusive running fold along one axis."""
    x, axis, attrs = op.operands[0], op.attrs["axis"], op.attrs
    dtype, shape, reverse = x.dtype, x.shape, attrs.get("reverse", False)
    combine = folding(low, attrs["kind"], dtype)
    items = items_of(low, low.of(x), dtype)
    if axis == len(shape) - 1:
        if dtype.is_pred:
            return rows_of([_scanned_bits(low, item, attrs["kind"], reverse) for item in items])
        return rows_of(
            [_scanned(low, item, combine, dtype, attrs["kind"], reverse) for item in items]
        )
    inner, extent = count_of(shape[axis + 1 :]), shape[axis]
    scanned = list(items)
    for start in range(0, len(items), inner * extent):
        for column in range(start, start + inner):
            places = [column + k * inner for k in range(extent)]
            if reverse:
                places.reverse()
            for before, at in pairwise(places):
                scanned[at] = combine(scanned[before], scanned[at])
    return rows_of(scanned)


def _scanned_bits(low: KernelLowering, item: Item, kind: str, reverse: bool) -> Item:
    """A row of bits scanned as bytes: LLVM moves eight bits of a mask by one as if it were sixteen,
    and takes what is behind them for zeros."""
    e, kind = low.e, {"maximum": "or", "minimum": "and"}.get(kind, kind)
    held = tuple([to_storage(e, x, PRED) for x in item])
    scanned = _scanned(low, held, folding(low, kind, U8), U8, kind, reverse)
    return tuple([from_storage(e, x, PRED) for x in scanned])


def _scanned(
    low: KernelLowering, item: Item, combine: Combine, dtype: DType, kind: str, reverse: bool
) -> Item:
    """One row scanned: parts of a register's width by doubling steps, then the sums before."""
    e, lanes = low.e, item[0].lanes
    width = min(lanes, low.machine.lanes(max(8, BITS[item[0].kind])))
    starts = list(range(0, lanes, width))
    parts = [_cut(low, item, at, min(width, lanes - at)) for at in starts]
    if reverse:
        parts.reverse()
    neutral = identity(dtype, kind)
    done: list[Item] = []
    carry: Item | None = None
    for part in parts:
        now = _scanned_register(low, part, combine, dtype, neutral, reverse)
        count = part[0].lanes
        if carry is not None:
            now = combine(tuple([e.splat(c, count) for c in carry]), now)
        edge = 0 if reverse else count - 1
        carry = tuple([e.extract(p, edge) for p in now])
        done.append(now)
    if reverse:
        done.reverse()
    return tuple([low.joined([d[p] for d in done]) for p in range(len(item))])


def _scanned_register(
    low: KernelLowering,
    item: Item,
    combine: Combine,
    dtype: DType,
    neutral: float | int,
    reverse: bool,
) -> Item:
    """A row of few lanes: after the step by s, each lane folds the 2s lanes up to it."""
    e, lanes = low.e, item[0].lanes
    blank = constant_rows(low, dtype, (lanes,), neutral)
    by = 1
    while by < lanes:
        if reverse:
            mask = [i + by if i + by < lanes else lanes for i in range(lanes)]
        else:
            mask = [i - by if i >= by else lanes for i in range(lanes)]
        item = combine(_both(e, item, tuple(blank), mask), item)
        by *= 2
    return item


FOLD: dict[str, Handler] = {"reduce": reduce, "scan": scan}
