"""Tiles of short rows: several whole ones, or one each.

What each lane reads of its row is known when code is made where a tile is made of whole rows. Rows
that lie side by side in memory, and those that elements are joined to from here and there, are
tiles by themselves: other lanes would each ask for their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm, prod

from hloom.analysis.fusible import joins_indices
from hloom.codegen.elements import strides_of
from hloom.codegen.tile import Body
from hloom.codegen.work import element_work
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import RESHAPES
from hloom.types.sizes import data_bytes

# Short rows that are no power of two make tiles of so many vectors at most, or twice what is
# wanted: 13 columns are one tile of 13 vectors, of which each row is the same, and no lane asks for
# its own.
MOST_VECTORS = 16
# In bodies of many operations fewer, but still so many: the code of all vectors is written out.
FEW_VECTORS = 4
MOST_WRITTEN = 96
# Operations of a vector that the address of a row takes, and the mask of its end; how much longer
# others take where one vector is computed at a time; and what each lane takes that is gathered,
# from a table in a cache and from a larger one: many lanes wait for memory together. Exponentials
# of rows of 3 take 0.53 of the time beside one another, rows of 2 of 32 MB 0.73; rows of 8 twice
# the time.
ROW_WORK, ONE_AT_A_TIME = 2.5, 1.5
LANE_WORK, FAR_LANE_WORK = 2.0, 1.0
# Rows that fill no such share of a vector are joined with others all the same.
LEAST_SHARE = 1 / 4
# What is no operation of each vector.
WRITTEN_BEFORE = opcodes(RESHAPES, also=("constant", "broadcast", "tuple"))


def gathers_rows(body: Body, sizes: Sequence[int], vector: int, device: Device) -> bool:
    """Whether each row, however short, is a tile of its own: all that is gathered for it lies side
    by side, and what else is done takes less long for a vector that is not full than what every
    lane would take to find its element. Rows of 8 of 35,000: 0.3 of the time."""
    gathers = [x for x in body.instructions if x.opcode == "gather"]
    if not gathers or not sizes or sizes[-1] < 2:
        return False
    for x in gathers:
        of, last = x.operands[0].shape, x.shape.rank - 1
        is_same = x.shape.dims[last:] == (sizes[-1],) and last in x.attrs.offset_dims
        taken = (*x.attrs.collapsed_slice_dims, *x.attrs.operand_batching_dims)
        if not is_same or of.rank - 1 in taken:
            return False
    rest = sum(element_work(x, device.costs) for x in body.instructions if x.opcode != "gather")
    by_lane = rest / vector
    for x in gathers:
        is_far = 2 * data_bytes(x.operands[0].shape) > device.last_bytes
        by_lane += FAR_LANE_WORK if is_far else LANE_WORK
    return (ROW_WORK * len(gathers) + ONE_AT_A_TIME * rest) / sizes[-1] < by_lane


def _is_apart(x: Instruction) -> bool:
    """Whether elements that are side by side in a row of the result are not in the operand's."""
    if not x.shape.is_array or x.shape.rank == 0:
        return False
    last = x.shape.rank - 1
    if x.opcode == "reverse":
        return last in x.attrs.dimensions
    if x.opcode == "slice":
        return x.attrs.slice.dimensions[last].stride != 1
    return x.opcode == "pad" and x.attrs.padding.dimensions[last].interior_padding != 0


def joins_apart(
    instructions: Sequence[Instruction],
    sizes: Sequence[int],
    vectors: int,
    vector: int,
    floats: int,
) -> bool:
    """Whether each row is a tile of its own, as elements that lie apart are joined to it and tiles
    of whole rows would be too long: lanes that do not know their place are filled one by one. Scans
    by pairs along rows of 7 to 15 take 0.1 to 0.25 of the time, and half as long to compile."""
    joins = any(x.opcode in ("pad", "concatenate") for x in instructions)
    if not joins or not any(map(_is_apart, instructions)):
        return False
    if not sizes or sizes[-1] <= LEAST_SHARE * vector:
        return False
    return whole_rows(instructions, vectors, vector, sizes, floats) % sizes[-1] != 0


def interleaved_row(instructions: Sequence[Instruction], sizes: Sequence[int], vector: int) -> int:
    """How many elements a row has, where rows take turns in what is joined and each is a tile of
    its own; else 0. It is then known of which source a row is, and what the others do is not run.
    Scans by pairs along the first of two dimensions take 0.1 to 0.8 of the time with 4 to 15
    columns of f32 and AVX-512."""
    for x in instructions:
        if x.opcode != "pad" or prod(x.shape.dims) != prod(sizes):
            continue
        for row, along in zip(strides_of(x.shape), x.attrs.padding.dimensions):
            if along.interior_padding and LEAST_SHARE * vector <= row < vector:
                return row
    return 0


def whole_rows(
    instructions: Sequence[Instruction],
    vectors: int,
    vector: int,
    inner: Sequence[int],
    floats: int,
) -> int:
    """About so many vectors of lanes; whole short rows of the fastest dimension where that is
    possible: what each lane reads of its row is known when code is made then. Elements that lie
    apart are read one by one, so that of narrow ones as few rows as of floats are a tile: of 960
    bytes the code took 12 s to compile."""
    solid, lanes = [n for n in inner if n != 1], vectors * vector
    if len(solid) < 2 or 0 in solid or lanes % solid[-1] == 0:
        return lanes
    if any(map(_is_apart, instructions)):
        vector = min(vector, floats)
    rows = lcm(vector, solid[-1])
    count = len(
        [x for x in instructions if x.opcode not in WRITTEN_BEFORE and not joins_indices(x)]
    )
    most = max(FEW_VECTORS, min(MOST_VECTORS, MOST_WRITTEN // max(count, 1)))
    if any(x.opcode == "reduce-window" for x in instructions):
        most = FEW_VECTORS  # each place of the window is read for itself
    if rows > vector * max(2 * vectors, most):
        return lanes
    return max(lanes // rows, 1) * rows
