"""What computing a value again costs against keeping it in memory.

How many cheap operations one is worth, and what a cheap one, a byte and a kernel take, the device
says (`Costs`). Only orders of magnitude matter: nothing here changes results.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from math import prod
from sys import maxsize

from hloom.analysis.fusible import INDEX_MAPS, POINTWISE, RENAMES
from hloom.device.costs import INTEGER_DIVISION, Costs
from hloom.ir.instruction import Instruction
from hloom.types.sizes import top_bytes

BLOCK_LINES = 64
"""Rows or columns of a small block."""
ACROSS = 1.0
"""Reading an element of another line of memory than its neighbours, in cheap operations."""
FEW_IN_ROW = 12
"""Results of short rows are computed an element of each row at a time, and put in turn."""
MOST_LOOKED_AT = 32
"""Values that a concatenation is made of, in search of a transpose."""
FEW_ROWS = 6
"""How many rows a tile has that reads the other operand where it stands."""
LEAST_PACKED = 32
"""A product with as many rows, columns and terms packs its operands."""


def weight(i: Instruction, costs: Costs) -> float:
    """How many cheap operations one element of a value costs, its operands being there."""
    if i.opcode in ("divide", "remainder") and i.shape.dtype.is_integral:
        return INTEGER_DIVISION
    w = costs.weight(i.opcode)
    return 4 * w if i.shape.dtype.is_complex else w


def read_weight(i: Instruction, costs: Costs) -> float:
    """As `weight`, with what it takes to read each element from a line of memory of its own."""
    w = weight(i, costs)
    return max(w, ACROSS) if i.opcode == "transpose" and moves_minor(i) else w


def lane_share(i: Instruction) -> float:
    """Which part of the lane of an f32 an element takes in registers: a quarter where whole numbers
    of a byte are computed of such. Halves are computed as f32."""
    widths = [
        4 if x.shape.dtype.is_floating else x.shape.dtype.size_bytes
        for x in (i, *i.operands)
        if x.shape.is_array and x.shape.dims
    ]
    return min(max(widths, default=4) / 4, 1.0)


def moves_minor(p: Instruction) -> bool:
    """Whether a transpose changes which dimension lies innermost (sizes of 1 apart)."""
    dims = p.operands[0].shape.dims
    order = [d for d in p.attrs.dimensions if dims[d] > 1]
    return bool(order) and order[-1] != max(order)


def joins_turned(p: Instruction, short: int, cached_bytes: int) -> bool:
    """Whether a concatenation of short runs joins what is read in another order than it lies in:
    each of a vector of results comes from another place, and which part has it differs, too.
    `short`: neighbours in memory that are so few are not read together. Long rows that become
    columns are turned in tiles, if they are more than stays in the nearest caches."""
    d = p.attrs.dimensions[0]
    if min(prod(x.shape.dims[d:]) for x in p.operands) >= short:
        return False
    stack, seen = list(p.operands), set(p.operands)
    while stack and len(seen) <= MOST_LOOKED_AT:
        x = stack.pop()
        if x.opcode == "transpose" and _run(x) < short:
            is_large = top_bytes(x.shape) > cached_bytes
            return not (is_large and moves_minor(x) and has_long_rows(x))
        if x.opcode in POINTWISE and x.opcode != "concatenate":
            stack += [o for o in x.operands if o not in seen and o.shape.size > 1]
            seen.update(x.operands)
    return False


def _run(p: Instruction) -> int:
    """How many elements a transpose leaves side by side; without end if it moves none."""
    dims = p.operands[0].shape.dims
    order = [d for d in p.attrs.dimensions if dims[d] > 1]
    still = sorted(order)
    if order == still:
        return maxsize
    run = 1
    while order and order[-1] == still[-1]:
        run *= dims[order.pop()]
        still.pop()
    return run


def has_long_rows(p: Instruction) -> bool:
    """Whether rows are more than a few elements, before a transpose and behind it. Dimensions that
    stay side by side are one."""
    dims = p.operands[0].shape.dims
    order = [d for d in p.attrs.dimensions if dims[d] > 1]
    rank = {d: k for k, d in enumerate(sorted(order))}
    sizes: list[int] = []
    ends: list[int] = []
    for d in order:
        if ends and rank[d] == ends[-1] + 1:
            sizes[-1] *= dims[d]
            ends[-1] = rank[d]
        else:
            sizes.append(dims[d])
            ends.append(rank[d])
    return bool(sizes) and min(sizes[-1], sizes[ends.index(max(ends))]) > FEW_IN_ROW


def is_view(i: Instruction, costs: Costs, cached_bytes: int) -> bool:
    """Whether it computes nothing and reads no more than it gives: as well made twice as kept.
    `cached_bytes`: what stays in the nearest caches, in whatever order it is read."""
    opcode = i.opcode
    if opcode in RENAMES or opcode in ("constant", "iota", "broadcast", "slice", "dynamic-slice"):
        return True
    if opcode in ("reverse", "transpose"):
        return top_bytes(i.shape) <= cached_bytes
    if opcode == "convert":  # from fewer bytes
        return i.operands[0].shape.dtype.bits < i.shape.dtype.bits
    return not i.shape.dims and weight(i, costs) <= 1


def read_bytes(i: Instruction) -> int:
    """Bytes read to compute all of it: of operands, and of what broadcasts and views are of."""
    total = 0
    for x in i.operands:
        while x.opcode in INDEX_MAPS and len(x.operands) == 1:
            inner = x.operands[0]
            if inner.shape.size > x.shape.size:
                break
            x = inner
        if x.opcode not in ("constant", "iota"):
            total += top_bytes(x.shape)
    return total


def large_operands(i: Instruction) -> list[Instruction]:
    """The different operands that hold about as much as `i` itself, seen through what renames and
    repeats."""
    large: dict[Instruction, None] = {}
    for x in i.operands:
        inner = x
        while inner.opcode in INDEX_MAPS and len(inner.operands) == 1:
            inner = inner.operands[0]
        if inner.opcode not in ("constant", "iota") and inner.shape.size * 2 > i.shape.size:
            large[x] = None
    return list(large)


def ends_within(
    i: Instruction, most: float, members: Collection[Instruction], costs: Costs
) -> bool:
    """Whether all that `i` is computed from, back to what is in memory in any case, weighs no
    more than that; what is among `members` is paid for."""
    seen: set[Instruction] = {i}
    stack = [i]
    while stack:
        x = stack.pop()
        if x in members or (x.opcode not in POINTWISE and x.opcode not in INDEX_MAPS):
            continue
        most -= weight(x, costs)
        if most < 0:
            return False
        stack += [o for o in x.operands if o not in seen]
        seen.update(x.operands)
    return True


def is_cheap_twice(
    i: Instruction, times: int, most: float, costs: Costs, vector_floats: int
) -> bool:
    """Whether computing it in each of several readers moves no more bytes than keeping it."""
    if weight(i, costs) > most:
        return False
    if is_tiny(i, costs, vector_floats):
        return True
    inside, outside = read_bytes(i), top_bytes(i.shape)
    return times * inside <= inside + (1 + times) * outside


def is_tiny(i: Instruction, costs: Costs, vector_floats: int) -> bool:
    """Whether a cheap operation gives one vector or less."""
    return weight(i, costs) <= 1 and i.shape.size <= vector_floats


def reads_no_more(i: Instruction, costs: Costs) -> bool:
    """Whether a cheap operation reads no more than it gives, so that keeping it saves nothing."""
    return weight(i, costs) <= 1 and read_bytes(i) <= 1.1 * top_bytes(i.shape)


def has_window(anchor: Instruction) -> bool:
    """Whether a product reads its first operand several times: a convolution by its window."""
    if anchor.opcode != "convolution":
        return False
    spatial = anchor.attrs.dim_labels.kernel_spatial_dimensions
    return any(anchor.operands[1].shape.dims[d] != 1 for d in spatial)


def prologue_limit(
    anchor: Instruction,
    side: int,
    costs: Costs,
    most_blocks: float,
    tile_types: Collection[tuple[str, str]] = (),
) -> float:
    """How much may be computed for each element a dot or convolution reads of operand `side`.

    Large dots pack their operands, each element once for every block of the other operand: more
    than writing and reading it takes is not computed there. Of a dot with few rows (or columns) the
    large operand is read once, the small one again and again; windows read all elements again and
    again. Whole tiles (`tile_types`: of which types) are multiplied so fast that rows which are
    computed where they are read take as long again or longer: of nine products with one to three
    operations on the left operand, 64 to 2,048 rows by 64 to 3,072 columns, all take 0.3 to 0.86 of
    the time with rows in memory, on one thread and on two.
    """
    if anchor.opcode == "convolution":
        return 2.0 if has_window(anchor) else 8.0
    depth, free = _extents(anchor)
    if min(*free, depth) >= LEAST_PACKED:
        if side == 0 and tuple([x.shape.dtype.name for x in anchor.operands]) in tile_types:
            return 0.0
        again = min(most_blocks, free[1 - side] / BLOCK_LINES) - 1.0
        kept_ns = 2 * costs.byte_ns * anchor.operands[side].shape.dtype.size_bytes
        return max(4.0, min(60.0, kept_ns / (costs.operation_ns * max(again, 0.01))))
    if free[side] < free[1 - side]:
        return 1.0
    # It is read once for each tile of rows of the other: once, where there are few.
    return 60.0 if free[1 - side] <= FEW_ROWS else 4.0


def has_few_rows(dot: Instruction) -> bool:
    """Whether one operand of a dot is read once, where it stands, by few rows of the other."""
    return min(_extents(dot)[1]) <= FEW_ROWS


def meets_other_order(
    p: Instruction, anchor: Instruction, members: Collection[Instruction]
) -> bool:
    """Whether what follows from a transpose meets an array as large that is none, on the way to a
    dot that computes its operand once, where it reads it: vectors go along one order."""
    if anchor.opcode != "dot" or not has_few_rows(anchor):
        return False
    pending, seen = [p], {p}
    while pending:
        for u in pending.pop().users:
            if u is anchor or u not in members or u in seen:
                continue
            seen.add(u)
            pending.append(u)
            if any(x not in seen and _is_read_along(x, p) for x in u.operands):
                return True
    return False


def _is_read_along(x: Instruction, p: Instruction) -> bool:
    """Whether a value beside `p` is as large, and memory's order matters to who reads it."""
    is_large = x.shape.size * 2 >= p.shape.size
    return is_large and x.opcode not in ("broadcast", "iota") and x.opcode != p.opcode


def _extents(dot: Instruction) -> tuple[int, list[int]]:
    """How many elements a dot contracts, and how many rows and columns it has."""
    a, left, right = dot.attrs, dot.operands[0].shape, dot.operands[1].shape
    depth = prod(left.dims[d] for d in a.lhs_contracting_dims)
    batch = prod(left.dims[d] for d in a.lhs_batch_dims)
    return depth, [max(1, s.size // (depth * batch)) for s in (left, right)]


@dataclass
class Account:
    """What one fusion has spent on computing things more often than once."""

    again: float = 0.0
    """Cheap operations."""
    copies: float = 0.0
    scalar_copies: int = 0
    """Single numbers that other kernels compute, too."""
    prologue: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """For each operand of the anchor."""
