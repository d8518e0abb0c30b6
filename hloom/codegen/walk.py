"""How the elements of a kernel are walked: what goes to the grid, what to loops, how many lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from hloom.codegen.elements import strides_of
from hloom.codegen.elements_data import MOVED
from hloom.codegen.row_products import contracts_rows, sums_alone
from hloom.codegen.row_tiles import gathers_rows, interleaved_row, joins_apart, whole_rows
from hloom.codegen.tile import Body, ShapeIndex, compute_bytes, is_update
from hloom.codegen.work import element_work
from hloom.device.costs import MANY_REGISTERS
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import CHOOSES

# A step of the grid handles about this many elements of a long row, for each byte of the nearest
# cache: an operand and a result of f32 fill it.
BLOCK_SHARE = 1 / 8
# Up to this much work for an element a tile has four vectors of the machine, not two.
WIDE_WORK = 20.0
# With so many operations for each on the longest chain a body is no chain. Those of chains have
# four vectors, or eight where there are no functions (operations of much work of their own) and not
# too much is written out.
SIDE_BY_SIDE = 2.0
FUNCTION_WORK = 10.0
PARTLY_SIDE_BY_SIDE = 1.6
MOST_CHAINED = 300.0
# Of a product of a few vectors and a matrix each sum of a tile takes so many registers: one to add
# to and one for the sum of the blocks before.
REGISTERS_PER_SUM = 2
FEW_ROWS = 4
# Steps that take less than so many times what starting them does go over several rows...
LONG_STEP = 20.0
# ... as long as there are so many for each core.
STEPS_PER_UNIT = 16
# Rows of fewer vectors than that, of which several results are folded (the largest element and its
# index), are folded side by side, each in its lane: joining lanes takes several operations for each
# halving, more for floats, of which each may be NaN.
MOST_JOINED = 2
MOST_JOINED_FLOATS = 4
# What needs a mask, or an offset for every lane: machines have those for one vector at a time.
MASKED = opcodes(CHOOSES, also=("reduce-window",))


def block_elements(device: Device) -> int:
    """About how many elements of a long row a step of the grid handles."""
    return max(int(device.nearest_bytes * BLOCK_SHARE), 1)


def domain(root: Instruction, index: ShapeIndex) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes of what a root writes, slowest dimension first, and which dimensions they are."""
    shape = root.operands[1].shape if is_update(root) else root.shape.subshape(index)
    written = root.shape if is_update(root) else shape
    order = written.layout.minor_to_major[::-1] if written.layout else range(len(shape.dims))
    order = tuple(order)
    return tuple([shape.dims[d] for d in order]), order


def is_flat(body: Body) -> bool:
    """Whether all is elementwise on arrays of one shape and layout, so that it is one long row."""
    shape = body.roots[0][0].shape
    if not shape.is_array:
        return False
    for x in [x for x, _ in body.leaves] + body.instructions + [r for r, _ in body.roots]:
        if x.opcode == "tuple":
            continue
        if x.shape.rank == 0 or (x.opcode == "constant"):
            continue
        if not x.shape.is_array or x.shape.dims != shape.dims:
            return False
        if x.shape.layout is not shape.layout and strides_of(x.shape) != strides_of(shape):
            return False
        if x.opcode in MOVED and not (x.opcode == "broadcast" and x.operands[0].shape.rank == 0):
            return False
        if x.opcode in ("reduce", "reduce-window", "dot", "convolution", "get-tuple-element"):
            return False
    return True


def vectors_for(body: Body, device: Device, work: float) -> int:
    """How many vectors a tile has, fewer the more there is to do. Two at least, where nothing is
    masked: operations that wait for one another take turns then."""
    if any(x.opcode in MASKED or _sums_rows(x, device) for x in body.instructions):
        return 1
    if any(_is_vector_product(x) for x in body.instructions):
        return max(2, device.compute.vector_registers // REGISTERS_PER_SUM)
    return 4 if work <= WIDE_WORK else _chain_vectors(body, device, work)


def _chain_vectors(body: Body, device: Device, work: float) -> int:
    """How many vectors of a body of much work take turns. Where most of it is one chain, of
    operations that wait for one another, the processor sees the next vector only when it is nearly
    through with one: steps of an integrator, of Newton's method or of a recurrence that are
    written out, functions of functions."""
    if not is_flat(body):
        return 2
    works = {x: element_work(x, device.costs) for x in body.instructions}
    ends: dict[Instruction, float] = {}
    for x, own in works.items():
        ends[x] = own + max([ends.get(y, 0.0) for y in x.operands], default=0.0)
    # A vector of complex numbers is half a register of each of their parts.
    least = 4 if any(x.shape.is_array and x.shape.dtype.is_complex for x in works) else 2
    side_by_side = sum(works.values()) / max([1.0, *ends.values()])
    if side_by_side >= SIDE_BY_SIDE:
        return least
    functions = sum(own > FUNCTION_WORK for own in works.values())
    if functions:
        return 4 if functions > 1 else least
    # Two chains, of which each keeps two values or three (Bessel functions): of 16 registers too
    # many, and half as many vectors wait no longer; 0.74 to 0.9 of the time, with 32 1.2.
    is_full = device.compute.vector_registers < MANY_REGISTERS
    if work > MOST_CHAINED or (is_full and side_by_side >= PARTLY_SIDE_BY_SIDE):
        return 4
    return 8


def _is_vector_product(x: Instruction) -> bool:
    """Whether each lane has a sum of products of a matrix by a vector, or by a few one after the
    other: so many of them as the machine multiplies before the first is done, or it waits."""
    if x.opcode != "dot" or x.attrs.lhs_batch_dims:
        return False
    columns = [
        n for d, n in enumerate(x.operands[1].shape.dims) if d not in x.attrs.rhs_contracting_dims
    ]
    return prod(columns) > 1 and x.shape.size <= FEW_ROWS * prod(columns)


def vector_lanes(body: Body, device: Device) -> int:
    """The lanes of a vector."""
    return max(1, device.compute.vector_bytes // _lane_bytes(body, device))


def _sums_rows(x: Instruction, device: Device) -> bool:
    """Whether each lane has a vector of sums of its own."""
    return x.opcode == "dot" and contracts_rows(x, device.compute.vector_bytes)


def _lane_bytes(body: Body, device: Device) -> int:
    """The bytes of an element that vectors are counted by: the widest type, or half of it where
    it is rare. Indices of 8 bytes in a body of floats take two registers, not half of each."""
    work: dict[int, float] = {}
    for x in (*body.instructions, *(x for x, _ in body.leaves)):
        if x.shape.is_array:
            width = min(compute_bytes(x.shape.dtype), 8)
            work[width] = work.get(width, 0.0) + element_work(x, device.costs)
    widest = max(work, default=4)
    return widest // 2 if work.get(widest, 0.0) * 4 < sum(work.values()) else widest


def row_count(body: Body, sizes: Sequence[int], device: Device) -> int | None:
    """How many leading dimensions the reductions keep that others read, or that are results beside
    the elements of whole rows; None if there are none. Results of one element for each short row
    are computed side by side, a vector of rows at a time: what follows the sum is worth it."""
    roots, total = {r for r, _ in body.roots}, prod(sizes)

    def is_inner(x: Instruction) -> bool:
        is_read = x not in roots or any(u.opcode != "tuple" for u in x.users)
        return is_read or x.shape.size < total

    folds = [x for x in body.instructions if x.opcode == "reduce" and not x.shape.is_tuple]
    inner = [x for x in folds if is_inner(x)]
    if not inner:
        return None
    rows = min(x.shape.size for x in inner)
    if rows == total and all(_is_short(x, device) or _keeps_lanes(x, device) for x in inner):
        return None
    count = 1
    for d, n in enumerate(sizes):
        if count == rows:
            return d
        count *= n
    return len(sizes) if count == rows else None


def _keeps_lanes(fold: Instruction, device: Device) -> bool:
    """Whether a reduction keeps what lies side by side in memory, half a vector of it at least:
    each lane folds elements of its own then."""
    of = fold.operands[0].shape
    order = of.layout.minor_to_major if of.layout else range(of.rank - 1, -1, -1)
    kept = next((d for d in order if of.dims[d] != 1), None)
    if kept is None or kept in fold.attrs.dimensions:
        return False
    return of.dims[kept] * compute_bytes(of.dtype) * 2 >= device.compute.vector_bytes


def _is_short(fold: Instruction, device: Device) -> bool:
    """Whether a reduction folds less than a vector for each of its results."""
    of = fold.operands[0].shape
    return (
        of.size // max(1, fold.shape.size) * compute_bytes(of.dtype) < device.compute.vector_bytes
    )


def folds_rows(body: Body, device: Device) -> bool:
    """Whether the roots are reductions of rows, or the root is a dot of rows with few results side
    by side: lanes go along what is folded."""
    read = {x for x, _ in body.leaves}
    for root, _ in body.roots:
        x = root
        while x.opcode in ("get-tuple-element", "bitcast", "reshape", "convert", "copy"):
            x = x.operands[0]
        if x.opcode == "dot" and len(body.roots) == 1:
            is_read = [y in read for y in x.operands]
            return sums_alone(x, device.compute.vector_bytes, is_read)
        if x.opcode != "reduce":
            continue
        of = x.operands[0].shape
        order = of.layout.minor_to_major if of.layout else range(of.rank - 1, -1, -1)
        solid = [d for d in order if of.dims[d] != 1]
        if solid and solid[0] in x.attrs.dimensions:
            return of.dims[solid[0]] >= _least_along(x, device)
    return False


def _least_along(fold: Instruction, device: Device) -> int:
    """From how many elements of a row on lanes go along it."""
    of, bytes_ = fold.operands[0].shape, device.compute.vector_bytes
    if not fold.shape.is_tuple:
        return bytes_ // compute_bytes(of.dtype)
    parts = fold.shape.elements
    lanes = bytes_ // max([compute_bytes(p.dtype) for p in parts])
    if parts[0].size < lanes:
        return lanes  # too few rows
    is_floating = any(p.dtype.is_floating for p in parts)
    return lanes * (MOST_JOINED_FLOATS if is_floating else MOST_JOINED)


def _shared_block(
    block: int, length: int, lanes: int, rows: int, device: Device, work: float
) -> int:
    """Blocks of a few long rows so that all cores have as many: with 17 of them for 16 cores one
    has two, and the others wait."""
    costs, units = device.costs, device.compute.units
    steps = rows * -(-length // block)
    if not 0 < steps < STEPS_PER_UNIT * units or units % rows:
        return block
    more, fewer = -(-steps // units) * units // rows, steps // units * units // rows
    if costs.steps_ns(length / more, work) >= costs.serial_ns / 2:
        return -(-length // (more * lanes)) * lanes
    larger = -(-length // (fewer * lanes)) * lanes if fewer else length
    return larger if larger <= 2 * block else block


@dataclass
class Loops:
    """How the elements of the roots are walked: grid over rows and blocks, a loop, lanes."""

    outer: tuple[int, ...]
    middle: tuple[int, ...]
    inner: tuple[int, ...]
    lanes: int
    block: int
    in_halves: bool = False
    """Whether tiles have powers of two of lanes only: masks of others are taken apart."""
    blocks_first: bool = False
    """Whether all rows of a block follow one another, not all blocks of a row."""

    @staticmethod
    def of(body: Body, sizes: tuple[int, ...], device: Device, work: float) -> Loops:
        rows = row_count(body, sizes, device)
        if rows is None and folds_rows(body, device):
            return Loops(sizes, (), (), 1, 1)
        vectors, vector = vectors_for(body, device, work), vector_lanes(body, device)
        split, length = len(sizes), 1
        is_long = device.compute.vector_bytes // 4
        is_row = gathers_rows(body, sizes, vector, device)
        floats = device.compute.vector_floats
        if is_row or joins_apart(body.instructions, sizes, vectors, vector, floats):
            is_long = min(is_long, sizes[-1])
        elif row := interleaved_row(body.instructions, sizes, vector):
            is_long = min(is_long, row)
        while split > (rows or 0) and length < is_long:
            split -= 1
            length *= sizes[split]
        whole = whole_rows(body.instructions, vectors, vector, sizes[split:], floats)
        lanes = min(whole, length)
        in_halves = vector > floats and any(x.opcode in MASKED for x in body.instructions)
        if in_halves and lanes == length == max(sizes[split:], default=0):
            lanes = 1 << (lanes.bit_length() - 1)
        outer, inner = sizes[:split], sizes[split:]
        if rows is not None:
            return Loops(sizes[:rows], sizes[rows:split], inner, lanes, length, in_halves)
        most = block_elements(device)
        block = length
        if length > 2 * most:
            block = max(most // lanes, 1) * lanes
            block = _shared_block(block, length, lanes, prod(outer), device, work)
        return Loops(outer, (), inner, lanes, block, in_halves)

    def in_long_steps(self, device: Device, work: float) -> Loops:
        """The same walk, with so many dimensions in a loop within each step that its start does
        not show: the number of a step has to be taken apart once for all of them."""
        outer, middle = self.outer, self.middle
        while len(outer) > 1 and prod(outer[:-1]) >= STEPS_PER_UNIT * device.compute.units:
            elements = prod(middle) * self.length
            if device.costs.steps_ns(elements, work) >= LONG_STEP * device.costs.step_ns:
                break
            outer, middle = outer[:-1], (outer[-1], *middle)
        return replace(self, outer=outer, middle=middle)

    @property
    def length(self) -> int:
        """Elements of a row of lanes."""
        return prod(self.inner)

    def rests(self, full: int) -> list[tuple[int, int]]:
        """The tiles behind the full ones: where each begins, and how many lanes it has."""
        rest = self.length - full
        if not self.in_halves or not rest:
            return [(full, rest)] if rest else []
        widths = [1 << k for k in reversed(range(rest.bit_length())) if rest >> k & 1]
        return [(full + sum(widths[:k]), width) for k, width in enumerate(widths)]

    @property
    def blocks(self) -> int:
        return -(-self.length // self.block) if self.block else 0

    @property
    def grid(self) -> tuple[int, ...]:
        if self.blocks == 1:
            return (prod(self.outer),)
        grid = (prod(self.outer), self.blocks)
        return grid[::-1] if self.blocks_first else grid

    @property
    def elements_per_step(self) -> int:
        return prod(self.middle) * self.block
