"""Gathers from few elements: a permutation of registers in place of a load for each lane.

What is gathered from is a small buffer (a table of 16 levels, the states of a machine), or a short
row: offsets that are one number for all lanes and one that is clamped. Or it is a few rows side by
side, of which each lane picks from its own (columns of rows of ten): what the lanes of one register
may pick from lies close together then. It is loaded into as many registers as it takes, of which
one instruction picks from two at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hloom.codegen.llvm.known_offsets import Known, known_numbers
from hloom.codegen.llvm.lower_masked import elements_held
from hloom.codegen.llvm.lower_state import KernelLowering, Rows, storage_of
from hloom.codegen.llvm.lower_storage import from_storage
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.values import BITS, V
from hloom.kernel.kernel import Op, Value
from hloom.types.dtype import DType

LEAST_LANES = 4
"""Fewer are loaded one by one."""
MOST_PAIRS = 8
"""Of registers: each is an instruction, and one more for what the others picked. Where a register
has few lanes fewer pairs, half as many: each lane would have been two instructions."""

MOST_FOR_LANE = 160
"""Bits of rows for each lane that picks from them; of more a load for each lane takes less."""


@dataclass(frozen=True)
class Permutation:
    """What picks lanes of one register, or of two, by numbers of the same width."""

    bits: int
    lanes: int
    one: str
    two: str = ""

    @property
    def reach(self) -> int:
        """How many elements one instruction picks from."""
        return self.lanes * (2 if self.two else 1)

    @property
    def most(self) -> int:
        """How many are worth several, and can be told apart by such numbers."""
        pairs = min(MOST_PAIRS, self.lanes // 2) if self.two else MOST_PAIRS
        return min(self.reach * pairs, 1 << self.bits)


_AVX512 = {
    8: ("avx512vbmi", "qi"),
    16: ("avx512bw", "hi"),
    32: ("avx512f", "d"),
    64: ("avx512f", "q"),
}


def permutation_of(machine: Machine, bits: int) -> Permutation | None:
    """The machine's, for elements of so many bits."""
    if machine.has_avx512:
        feature, word = _AVX512[bits]
        if not machine.has(feature):
            return None
        one = {"d": "si", "q": "di"}.get(word, word)
        lanes = 512 // bits
        names = f"x86.avx512.permvar.{one}.512", f"x86.avx512.vpermi2var.{word}.512"
        return Permutation(bits, lanes, *names)
    if machine.has_avx2 and bits == 32:
        return Permutation(bits, 8, "x86.avx2.permd")
    return None


@dataclass(frozen=True)
class Table:
    """Elements in registers: those of `parts`, which hold `count` in order."""

    of: Permutation
    parts: list[V]
    count: int
    least: int
    """The number of the first."""


def tabled(low: KernelLowering, op: Op) -> Rows | None:
    """What a gather picks, if its elements fit into registers: undefined where its mask, if it has
    one, excludes a lane. None if loads are better."""
    buffer, offsets, dtype = op.operands[0], op.operands[1], op.result.dtype
    if not offsets.shape or dtype.is_complex or not offsets.shape[-1] >= LEAST_LANES:
        return None
    p = permutation_of(low.machine, BITS[storage_of(dtype)])
    held = elements_held(low, buffer)
    if p is None or not held:
        return None
    within, start, least, count = offsets, None, 0, held
    is_masked = len(op.operands) == 4
    row = None if is_masked else _row(offsets)
    if row is not None and row[3] < held:
        within, start, least, count = row
    if count > min(p.most, held) or offsets.shape[-1] * 2 < count // p.lanes:
        is_row = not is_masked and len(offsets.shape) == 1
        rows = _rows_of_lanes(offsets, low.known_numbers) if is_row else None
        return None if rows is None else _from_rows(low, buffer, rows, p, dtype)
    table = _loaded(low, _moved(low, low.of(buffer)[0], start, p), least, count, p)
    return [_picked(low, table, at, dtype) for at in low.of(within)]


@dataclass(frozen=True)
class RowsOfLanes:
    """Offsets as the sum of numbers for all lanes, `starts`, one that is known for each, `rows`,
    and one that is clamped between two, `within`."""

    starts: list[Value]
    rows: np.ndarray[Any, np.dtype[np.int64]]
    within: Value
    least: int
    most: int


def _rows_of_lanes(offsets: Value, known: Known) -> RowsOfLanes | None:
    """Offsets as such a sum; None if they are none."""
    starts: list[Value] = []
    rows = np.zeros(offsets.shape, np.int64)
    within, limits = None, (0, 0)
    pending = [offsets]
    while pending:
        x = pending.pop()
        if (numbers := known_numbers(x, known)) is not None:
            rows = rows + numbers
        elif x.op is None:
            return None
        elif x.op.opcode == "add":
            pending += x.op.operands
        elif x.op.opcode == "broadcast" and not x.op.operands[0].shape:
            starts.append(x.op.operands[0])
        elif within is None and (ends := _limits(x)) is not None:
            within, limits = x, ends
        else:
            return None
    return None if within is None else RowsOfLanes(starts, rows, within, *limits)


def _from_rows(
    low: KernelLowering, buffer: Value, rows: RowsOfLanes, p: Permutation, dtype: DType
) -> Rows | None:
    """What lanes pick from rows, a register of lanes at a time: all that these may pick from is
    loaded, which is in the buffer, since data says what is picked. None if that is too much."""
    e, lanes = low.e, rows.rows.size
    pieces = [rows.rows[k : k + p.lanes] for k in range(0, lanes, p.lanes)]
    width = rows.most - rows.least + 1
    most = max(int(x.max() - x.min()) for x in pieces) + width
    if most > min(p.most, MOST_FOR_LANE * p.lanes // p.bits):
        return None
    [base], [within] = low.of(buffer), low.of(rows.within)
    for start in rows.starts:
        base = _moved(low, base, start, p)
    picked = []
    for number, piece in enumerate(pieces):
        first = int(piece.min())
        count = int(piece.max()) - first + width
        table = _loaded(low, base, rows.least + first, count, p)
        at = low.cut(within, number * p.lanes, piece.size)
        beyond = e.vector(at.kind, [int(n) - first - rows.least for n in piece])
        picked.append(_picked(low, replace(table, least=0), e.add(at, beyond), dtype))
    return [low.joined(picked)]


def _moved(low: KernelLowering, base: V, start: Value | None, p: Permutation) -> V:
    """An address so many elements further."""
    if start is None:
        return base
    e = low.e
    [first] = low.of(start)
    return e.gep(base, e.mul(e.sext(first, "i64"), e.const("i64", p.bits // 8)))


def _row(offsets: Value) -> tuple[Value, Value, int, int] | None:
    """Offsets as numbers of a row, and where it begins: those, the beginning, the least number and
    how many there may be. All of them may be read: data says which are."""
    op = offsets.op
    if op is None or op.opcode != "add":
        return None
    for at, within in (op.operands, op.operands[::-1]):
        limits = _limits(within)
        if limits is not None and at.op is not None and at.op.opcode == "broadcast":
            [start] = at.op.operands
            if not start.shape:
                return within, start, limits[0], limits[1] - limits[0] + 1
    return None


def _limits(x: Value) -> tuple[int, int] | None:
    """Between which numbers a value that was read is clamped; None if it is none."""
    ends: dict[str, int] = {}
    while x.op is not None and x.op.opcode in ("minimum", "maximum"):
        operands = [y for y in x.op.operands if y.op is None or y.op.opcode != "constant"]
        limit = next((y.op for y in x.op.operands if y.op and y.op.opcode == "constant"), None)
        if limit is None or len(operands) != 1 or x.op.opcode in ends:
            return None
        ends[x.op.opcode] = int(limit.attrs["value"])
        [x] = operands
    while x.op is not None and x.op.opcode == "convert":
        [x] = x.op.operands
    is_read = x.op is not None and x.op.opcode in ("load", "gather") and len(x.op.operands) == 2
    if not is_read or len(ends) != 2:
        return None
    low, high = ends["maximum"], ends["minimum"]
    narrow = x.dtype.bits < 32 and low != high
    return None if low > high or (narrow and high > 127) else (low, high)


def _loaded(low: KernelLowering, base: V, least: int, count: int, p: Permutation) -> Table:
    """Elements in registers, of which the first has a number."""
    e, kind, size = low.e, f"i{p.bits}", p.bits // 8
    parts = []
    for at in range(0, count, p.lanes):
        place, rest = e.gep(base, (least + at) * size), count - at
        if rest >= p.lanes:
            parts.append(e.load(place, kind, p.lanes))
        elif rest == 1:
            parts.append(e.splat(e.load(place, kind), p.lanes))
        else:
            there = e.vector("i1", [int(k < rest) for k in range(p.lanes)])
            parts.append(e.masked_load(place, there, e.const(kind, 0, p.lanes)))
    return Table(p, parts, count, least)


def _picked(low: KernelLowering, table: Table, at: V, dtype: DType) -> V:
    """The elements of these numbers."""
    e, p, kind = low.e, table.of, storage_of(dtype)
    whole = at.lanes // p.lanes * p.lanes
    rows = low.split(low.cut(at, 0, whole), p.lanes) if whole else []
    if whole < at.lanes:
        rows.append(low.cut(at, whole, at.lanes - whole))
    picked = []
    for row in rows:
        number = e.sub(row, e.like(row, table.least)) if table.least else row
        wide = number if row.lanes == p.lanes else _widened(low, number, p.lanes)
        lanes = _of_width(low, wide, p.bits)
        one = e.bitcast(_permuted(low, table, lanes), kind)
        picked.append(one if row.lanes == p.lanes else e.slice(one, 0, row.lanes))
    return from_storage(e, low.joined(picked), dtype)


def _widened(low: KernelLowering, row: V, lanes: int) -> V:
    e = low.e
    if row.lanes == 1:
        return e.splat(row, lanes)
    return e.shuffle(row, None, [*range(row.lanes), *[0] * (lanes - row.lanes)])


def _of_width(low: KernelLowering, number: V, bits: int) -> V:
    e, kind = low.e, f"i{bits}"
    return e.trunc(number, kind) if BITS[number.kind] > bits else e.sext(number, kind)


def _permuted(low: KernelLowering, table: Table, number: V) -> V:
    """Lanes of the first registers, or where numbers are beyond them of the next."""
    e, p, step = low.e, table.of, 2 if table.of.two else 1
    result = None
    for k in range(0, len(table.parts), step):
        pair = table.parts[k : k + step]
        depth = max(x.depth for x in (*pair, number))
        if len(pair) == 2:
            words = f"{pair[0].typed}, {number.typed}, {pair[1].typed}"
            text = f"call {pair[0].type} @llvm.{p.two}({words})"
        else:
            text = f"call {pair[0].type} @llvm.{p.one}({pair[0].typed}, {number.typed})"
        one = e.pure(text, pair[0].kind, p.lanes, depth)
        if result is not None:
            beyond = e.icmp("uge", number, e.like(number, k * p.lanes))
            one = e.select(beyond, one, result)
        result = one
    assert result is not None
    return result
