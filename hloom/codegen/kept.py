"""What several passes over a row need, computed once: kept in scratch from the first pass on.

A softmax adds up exponentials, then divides each of them: without this every pass would compute
them again. A pass is a reduction of the row, in the order in which they need one another, or at the
end the results. What several passes ask for at its own place is kept, where computing it again
costs more than writing and reading it in the nearest cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hloom.codegen.affine import Affine, linear
from hloom.codegen.elements import Elements, Index, Result, is_simple, strides_of
from hloom.codegen.elements_simple import as_in_memory
from hloom.codegen.tile import Body, compute_bytes
from hloom.codegen.work import element_work
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import RESHAPES
from hloom.kernel.kernel import Value
from hloom.types.dtype import DType
from hloom.types.shape import Shape

# What asks for its operands at its own place.
STILL = opcodes(RESHAPES, also=("copy",))
# Scratch for all that is kept of a row, as a share of the second-level cache.
KEPT_SHARE = 1 / 4


def row_rank(shape: Shape, rows: int, columns: int) -> int | None:
    """How many leading dimensions number the rows of an array of rows and columns; None where it
    is no such array, or does not lie in memory row by row."""
    if not shape.is_array or shape.size != rows * columns:
        return None
    if shape.layout is not None and not shape.layout.is_default:
        return None
    count, rank = 1, 0
    while count < rows and rank < shape.rank:
        count *= shape.dims[rank]
        rank += 1
    return rank if count == rows else None


def lies_in_rows(shape: Shape, rows: int, columns: int) -> bool:
    """Whether an array is rows and columns in memory, whether or not its dimensions tell them
    apart: of rows of 1,024 elements 128 rows of 8 are made by a reshape."""
    is_default = shape.is_array and (shape.layout is None or shape.layout.is_default)
    return is_default and shape.size == rows * columns


def is_row_fold(x: Instruction, rows: int, columns: int) -> bool:
    """Whether a reduction folds exactly the columns."""
    shape = x.operands[0].shape
    rank = row_rank(shape, rows, columns)
    if rank is None:
        return False
    folded = set(x.attrs.dimensions)
    return all((d in folded) == (d >= rank) for d in range(shape.rank) if shape.dims[d] != 1)


@dataclass
class Passes:
    """The passes over the rows of a body: `folds` in order, then the results; what is kept, and
    after which of them it is complete."""

    rows: int
    columns: int
    folds: list[Instruction]
    kept: dict[Instruction, int] = field(default_factory=dict)

    @staticmethod
    def of(body: Body, rows: int, columns: int, device: Device) -> Passes:
        """Those of a body; nothing is kept where a reduction does not fold whole rows."""
        folds = [x for x in body.instructions if x.opcode == "reduce"]
        if not all(x.shape.is_array and is_row_fold(x, rows, columns) for x in folds):
            return Passes(rows, columns, [])
        passes = Passes(rows, columns, folds)
        inputs = [[x.operands[0]] for x in folds] + [[r for r, _ in body.roots]]
        leaves = {x for x, _ in body.leaves}
        users: dict[Instruction, set[int]] = {}
        for number, wanted in enumerate(inputs):
            for x in passes._needed(wanted, leaves):
                users.setdefault(x, set()).add(number)
        passes._choose(body, inputs, users, device)
        return passes

    def _needed(self, wanted: list[Instruction], leaves: set[Instruction]) -> set[Instruction]:
        """The arrays of rows and columns that a pass asks for at its own place."""
        seen: set[Instruction] = set()
        work = list(wanted)
        while work:
            x = work.pop()
            if x in seen or x in leaves or not (is_simple(x) or x.opcode in STILL):
                continue
            if row_rank(x.shape, self.rows, self.columns) is None:
                continue
            seen.add(x)
            work += x.operands
        return seen

    def _choose(
        self,
        body: Body,
        inputs: list[list[Instruction]],
        users: dict[Instruction, set[int]],
        device: Device,
    ) -> None:
        """Keep what several passes ask for and no other kept value leads to in all of them."""
        costs = device.costs
        readers: dict[Instruction, list[Instruction]] = {}
        for x in body.instructions:
            for y in x.operands:
                readers.setdefault(y, []).append(x)
        room = int(device.near_bytes * KEPT_SHARE)
        order = {x: k for k, x in enumerate(body.instructions)}
        for x in sorted(users, key=order.__getitem__):
            passes = users[x]
            is_wanted = any(x in inputs[k] for k in passes)
            others = [u for u in readers.get(x, ()) if u in users]
            if len(passes) < 2 or not (is_wanted or any(users[u] != passes for u in others)):
                continue
            again = (len(passes) - 1) * self._work(x, users, device) * costs.operation_ns
            size = self.columns * compute_bytes(x.shape.dtype)
            if again > len(passes) * costs.element_ns and size <= room and _is_plain(x.shape):
                room -= size
                self.kept[x] = min(passes)

    def _work(self, x: Instruction, users: dict[Instruction, set[int]], device: Device) -> float:
        """What an element costs, from what is in memory or kept."""
        seen: set[Instruction] = set()
        work, total = [x], 0.0
        while work:
            y = work.pop()
            if y in seen or y not in users or (y is not x and y in self.kept):
                continue
            seen.add(y)
            total += element_work(y, device.costs)
            work += y.operands
        return total


def _is_plain(shape: Shape) -> bool:
    dtype = shape.dtype
    return not dtype.is_complex and not dtype.is_pred and dtype.size_bytes * 8 == dtype.bits


@dataclass
class Kept:
    """Scratch that holds the value of an instruction for the rows of a step: `strides[0]` of an
    element of the row, and where rows are lanes, each lane one further. `rank`: how many
    dimensions number the rows; None where one of them numbers rows and columns."""

    buffer: Value
    rank: int | None
    stride: int
    is_complete: bool = False
    is_missed: bool = False
    """Whether some of it was computed where it could not be kept."""


class KeptElements(Elements):
    """Elements of which some stand in scratch while a step works on its rows.

    `row` is the number of the row that is worked on, or of a row for each `lane`.
    """

    shares_rows = False
    places: dict[Instruction, Kept]
    row: Affine
    columns: int
    lane: Affine | None

    def begin_row(self, passes: Passes, row: Affine) -> None:
        """From here on a row by itself: lanes go along it."""
        self.columns, self.row, self.lane = passes.columns, row, None
        self.places = {}
        for x in passes.kept:
            rank = row_rank(x.shape, passes.rows, passes.columns)
            assert rank is not None
            size = self._whole(passes.columns, x.shape.dtype)
            self.places[x] = Kept(self.builder.alloc(x.shape.dtype, size), rank, 1)

    def fold_all(self, passes: Passes) -> None:
        """Compute the reductions of a row, one after another, and what is kept with them."""
        for number, fold in enumerate(passes.folds):
            self.result(fold, tuple(self.indices.digits(self.row, fold.shape.dims)))
            for x, complete in passes.kept.items():
                if complete == number:
                    self.places[x].is_complete = not self.places[x].is_missed

    def _write(self, i: Instruction, index: Index, mask: Value | None) -> Result:
        place = self.places.get(i)
        at = self._position(i, index, place) if place is not None and mask is None else None
        if at is None or place is None:
            value = super()._write(i, index, mask)
            if place is None:
                return value
            place.is_missed = True
            assert isinstance(value, Value)
            return as_in_memory(self, value)
        if place.is_complete:
            return self.load_at(place.buffer, at, None)
        value = super()._write(i, index, mask)
        assert isinstance(value, Value)
        value = as_in_memory(self, value)
        self._store_at(place.buffer, at, value)
        return value

    def _position(self, i: Instruction, index: Index, place: Kept) -> Affine | None:
        """Where the element stands; None if it is one of another row."""
        strides = strides_of(i.shape)
        if place.rank is None:
            at = linear(index, strides).plus(self.row.times(-self.columns))
            low, high = at.bounds()
            if low < 0 or high >= self.columns or self.lane is None or at.axes:
                return None
            return at.times(place.stride).plus(self.lane)
        row = linear(index[: place.rank], strides[: place.rank])
        if row != self.row.times(self.columns):
            return None
        at = linear(index[place.rank :], strides[place.rank :]).times(place.stride)
        if self.lane is None:
            return at if at.is_strided else None
        return at.plus(self.lane) if not at.axes else None

    def _store_at(self, buffer: Value, at: Affine, value: Value) -> None:
        b, shape = self.builder, self.shape_of(at.axes)
        begin = Affine(at.const, tuple([t for t in at.terms if not t[0].axes]))
        base = self.scalar(begin)
        strides = tuple([at.coefficient(a) for a in range(len(shape))])
        kept = b.broadcast(value, shape)
        if self.lane is None and strides == (1,) and begin == Affine(self.columns - shape[0]):
            # What is left of a row at its end: written in pieces it could not be read as a vector
            # before they all are in the cache.
            beyond = self._whole(self.columns, value.dtype) - self.columns
            if beyond and begin.const % self._vector(value.dtype) == 0:
                kept = b.concatenate([kept, b.constant(value.dtype, 0, (beyond,))], 0)
        b.store(buffer, base, kept, strides)

    def _whole(self, lanes: int, dtype: DType) -> int:
        """So many lanes and those that make whole vectors of them, or one of a power of two."""
        rest = lanes % self._vector(dtype)
        return lanes - rest + (1 << (rest - 1).bit_length() if rest else 0)

    def _vector(self, dtype: DType) -> int:
        return max(self.device.compute.vector_bytes // compute_bytes(dtype), 1)
