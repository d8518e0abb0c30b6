"""Gathers of rows whose places only the data says: an embedding of eight numbers side by side.

Groups of lanes ask for elements side by side where their offsets are a sum of numbers that count up
in each group and of what is the same for all lanes of a group, whatever it is. Each group is then
one load, in place of a load and an insertion for every lane.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from hloom.codegen.llvm.known_offsets import Known, known_numbers
from hloom.codegen.llvm.lower_masked import elements_held
from hloom.codegen.llvm.lower_shape import lane
from hloom.codegen.llvm.lower_state import KernelLowering, storage_of
from hloom.codegen.llvm.lower_storage import from_storage
from hloom.codegen.llvm.values import BITS, V
from hloom.kernel.kernel import BINARY, UNARY, Op, Value
from hloom.types.dtype import DType

SHORTEST = 2
"""Lanes of a group, at least."""
REGISTERS_OF_A_GROUP = 3
"""Registers of a table that are picked from in the time in which a place is taken out of a register
and read from: with AVX-512 a table of 22 rows of 4 floats took 0.6 of the time, of 22 of 8 1.3 to
2.3."""
BY_LANES = frozenset((*UNARY, *BINARY, *"clamp compare convert gather select".split()))
"""Ops whose result has equal lanes where their operands have."""


def row_lanes(low: KernelLowering, op: Op) -> int:
    """How many lanes at a time ask for elements side by side, which divide the rows of a gather's
    tile; 0 if none do, if that is not known, or if all that is read fits into fewer registers."""
    buffer, offsets = op.operands[:2]
    is_tile = bool(offsets.shape) and offsets.shape[-1] >= SHORTEST and 0 not in offsets.shape
    if len(op.operands) > 2 or op.result.dtype.is_complex or not is_tile:
        return 0
    size = _side_by_side(offsets, low.known_numbers)
    if not size:
        return 0
    width = low.machine.vector_bytes * 8 // BITS[storage_of(op.result.dtype)]
    registers = -(-elements_held(low, buffer) // width)
    groups = min(width, offsets.shape[-1]) / size
    return 0 if 0 < registers <= REGISTERS_OF_A_GROUP * groups else size


def row_gathered(low: KernelLowering, base: V, at: V, size: int, dtype: DType) -> V:
    """A row of elements at offsets that are side by side for so many lanes at a time."""
    e, kind = low.e, storage_of(dtype)
    width = max(size, low.machine.vector_bytes * 8 // BITS[kind] // size * size)
    parts = []
    for first in range(0, at.lanes, width):
        pieces = []
        for k in range(first, min(first + width, at.lanes), size):
            place = e.sext(lane(low, at, k), "i64")
            place = e.gep(base, e.mul(place, e.const("i64", dtype.size_bytes)))
            pieces.append(e.load(place, kind, size))
        parts.append(from_storage(e, e.concat(pieces), dtype))
    return low.joined(parts)


def _side_by_side(offsets: Value, known: Known) -> int:
    """Of how many lanes the groups are whose offsets count up; 0 if they are too few."""
    lanes = offsets.shape[-1]
    counting = np.zeros(offsets.shape, np.int64)
    others: list[Value] = []
    pending = [offsets]
    while pending:
        x = pending.pop()
        if (numbers := known_numbers(x, known)) is not None:
            counting = counting + numbers
        elif x.op is not None and x.op.opcode == "add":
            pending += x.op.operands
        else:
            others.append(x)
    beside = (np.diff(counting, axis=-1) == 1).reshape(-1, lanes - 1).all(axis=0)
    size = gcd(lanes, *[k + 1 for k, is_beside in enumerate(beside.tolist()) if not is_beside])
    seen: dict[Value, bool] = {}
    is_rows = size >= SHORTEST and all(_is_alike(x, size, known, seen) for x in others)
    return size if is_rows else 0


def _is_alike(x: Value, size: int, known: Known, seen: dict[Value, bool]) -> bool:
    """Whether each group of so many lanes of a tile has one number."""
    if x not in seen:
        seen[x] = _has_one_number(x, size, known, seen)
    return seen[x]


def _has_one_number(x: Value, size: int, known: Known, seen: dict[Value, bool]) -> bool:
    if x.shape[-1:] in ((), (1,)):
        return True
    if (numbers := known_numbers(x, known)) is not None:
        groups = numbers.reshape(-1, size)
        return bool((groups == groups[:, :1]).all())
    op = x.op
    if op is None:
        return False
    if op.opcode == "load":
        return op.attrs["strides"][-1] == 0 and len(op.operands) == 2
    operands = op.operands[1:] if op.opcode == "gather" else op.operands
    is_by_lanes = op.opcode in BY_LANES or op.opcode == "broadcast"
    return is_by_lanes and all(_is_alike(y, size, known, seen) for y in operands)
