"""Reductions that keep the fastest dimension: rows are read whole and added to accumulators.

Going down each column by itself would touch a page for every few elements. Here a step owns a
block of columns and streams over the rows, several at a time. Few columns stay in registers; many
are kept in a scratch buffer that lies in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.elements import SIMPLE, Elements
from hloom.codegen.elements_data import reshaped
from hloom.codegen.elements_fold import apply, fold_kind, folds_own_types
from hloom.codegen.tile import Body, Emitted, Frame, compute_bytes
from hloom.codegen.work import step_ns
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value

# Columns of one step, in bytes of one accumulator, where they are kept in memory.
BLOCK_BYTES = 8192
# More vectors than this, in not more than two blocks, are cut in halves.
HALVED_VECTORS = 32
# At most as many vectors are accumulated in registers.
REGISTERS = 8
# Rows that are added together, by the work of an element.
MANY_ROWS, SOME_ROWS = 8, 4
CHEAP, MODERATE = 3.0, 12.0
# What may stand between a reduction and a result: the element stays at its place.
STILL = SIMPLE | {"reshape", "bitcast", "copy", "get-tuple-element"}


@dataclass
class ColumnForm:
    """The reductions of a body, all over the same dimensions of equal shapes."""

    reduces: list[Instruction]
    sizes: tuple[int, ...]
    folded: tuple[int, ...]

    @property
    def inner(self) -> tuple[int, ...]:
        """Sizes of the columns."""
        return self.sizes[self.folded[-1] + 1 :]


def column_form(body: Body, vector_bytes: int) -> ColumnForm | None:
    """The body as a reduction of columns; None if it is something else."""
    reduces = [x for x in body.instructions if x.opcode == "reduce"]
    if not reduces:
        return None
    sizes, folded = reduces[0].operands[0].shape.dims, tuple(sorted(reduces[0].attrs.dimensions))
    for x in reduces:
        shape = x.operands[0].shape
        if shape.dims != sizes or tuple(sorted(x.attrs.dimensions)) != folded:
            return None
        if not folds_own_types(x):
            return None
        if shape.layout is not None and not shape.layout.is_default:
            return None
    if any(_needs(y, set(reduces)) for x in reduces for y in x.operands):
        return None
    if 0 in sizes or not folded or prod(sizes[d] for d in folded) < 2 * MANY_ROWS:
        return None
    form = ColumnForm(reduces, sizes, folded)
    columns = prod(form.inner)
    width = max(compute_bytes(y.shape.dtype) for x in reduces for y in _inputs(x))
    if columns * width < vector_bytes // 2:
        return None
    kept = prod(sizes) // prod(sizes[d] for d in folded)
    known: set[Instruction] = set()
    for root, part in body.roots:
        shape = root.shape.subshape(part)
        if shape.size != kept or not _stays(root, kept, known, set(reduces)):
            return None
        if shape.layout is not None and not shape.layout.is_default:
            return None
    return form


def _inputs(x: Instruction) -> Sequence[Instruction]:
    return x.operands[: len(x.operands) // 2]


def _stays(x: Instruction, size: int, known: set[Instruction], reduces: set[Instruction]) -> bool:
    """Whether a value asks for the reductions at its own position only."""
    work = [x]
    while work:
        x = work.pop()
        if x in known or x in reduces:
            continue
        known.add(x)
        if not _needs(x, reduces):
            continue
        if x.opcode not in STILL or (x.shape.is_array and x.shape.size != size):
            return False
        if x.opcode == "bitcast" and x.shape.dtype is not x.operands[0].shape.dtype:
            return False
        work += x.operands
    return True


def _needs(x: Instruction, reduces: set[Instruction]) -> bool:
    """Whether a reduction is among what a value is made of."""
    seen: set[Instruction] = set()
    work = [x]
    while work:
        x = work.pop()
        if x in reduces:
            return True
        if x not in seen and x.opcode != "parameter":
            seen.add(x)
            work += x.operands
    return False


def column_kernel(body: Body, form: ColumnForm, vector_bytes: int) -> Emitted:
    """A kernel that streams over rows and accumulates columns."""
    inner, folded, sizes = form.inner, form.folded, form.sizes
    kept = [d for d in range(folded[-1]) if d not in folded]
    outer = tuple([sizes[d] for d in kept])
    columns, rows = prod(inner), prod(sizes[d] for d in folded)
    width = max(compute_bytes(y.shape.dtype) for x in form.reduces for y in _inputs(x))
    lanes = min(max(vector_bytes // width, 1), columns)
    accumulators = sum(len(_inputs(x)) for x in form.reduces)
    block = min(max(BLOCK_BYTES // width // accumulators, lanes) // lanes * lanes, columns)
    if -(-columns // lanes) * accumulators <= REGISTERS:
        block = columns
    elif HALVED_VECTORS * lanes < columns <= 2 * block:
        # Two halves, so that both threads have one.
        block = -(-columns // 2 // lanes) * lanes
    blocks = -(-columns // block)
    frame = Frame(body, (prod(outer), blocks), vector_bytes)
    writer = _Columns(frame, form, kept, lanes, block)
    e, b = frame.elements, frame.builder
    row = e.indices.scalar(b.grid_indices[0], 0, max(prod(outer) - 1, 0))
    writer.outer = e.indices.digits(row, outer)
    writer.write(b.grid_indices[1], blocks, columns)
    per_element = sum(1.0 for _ in body.instructions)
    return frame.finish(step_ns(rows * block, per_element))


class _Columns:
    """Writes one step: a block of columns."""

    def __init__(
        self,
        frame: Frame,
        form: ColumnForm,
        kept: list[int],
        lanes: int,
        block: int,
    ) -> None:
        self.frame = frame
        self.form = form
        self.kept = kept
        self.lanes = lanes
        self.block = block
        self.outer: list[Affine] = []
        cost = len([x for x in frame.body.instructions if x.opcode not in _FREE])
        self.rows = MANY_ROWS if cost <= CHEAP else SOME_ROWS if cost <= MODERATE else 1

    @property
    def e(self) -> Elements:
        return self.frame.elements

    def write(self, number: Value, blocks: int, columns: int) -> None:
        """One of the blocks; the last may be smaller."""
        at = self.e.indices.scalar(number, 0, blocks - 1)
        self.e.one_tile(at, self.block, columns, self._block)

    def _block(self, start: Affine, size: int) -> None:
        accumulators = sum(len(_inputs(x)) for x in self.form.reduces)
        if -(-size // self.lanes) * accumulators <= REGISTERS:
            self._in_registers(start, size)
        else:
            self._in_memory(start, size)

    # -- positions

    def _pieces(self, size: int) -> list[tuple[int, int]]:
        """Where tiles begin, and how many lanes each has: full ones, then powers of two."""
        full = size - size % self.lanes
        found = [(k, self.lanes) for k in range(0, full, self.lanes)]
        while full < size:
            lanes = 1 << ((size - full).bit_length() - 1)
            found.append((full, lanes))
            full += lanes
        return found

    def _columns_at(self, start: Affine, lanes: int) -> list[Affine]:
        e = self.e
        e.tile = (lanes,) if lanes > 1 else ()
        return e.indices.digits(start.plus(e.indices.lane(0, lanes, 1)), self.form.inner)

    def _stream(
        self, carried: Sequence[Value], body: Callable[..., Sequence[Value]]
    ) -> Sequence[Value]:
        """Loops over all rows; `body(rows, *carried)` gets some indices of folded dimensions."""
        e, form = self.e, self.form
        last = [form.folded[-1]]
        while len(last) < len(form.folded) and last[0] - 1 == form.folded[-len(last) - 1]:
            last.insert(0, last[0] - 1)
        slow = [d for d in form.folded if d not in last]
        extents = [form.sizes[d] for d in last]
        length, count = prod(extents), min(self.rows, prod(extents))

        def at(outer: list[Affine], k: Affine) -> list[Affine]:
            return [*outer, *e.indices.digits(k, extents)]

        def rows(outer: list[Affine], *values: Value) -> Sequence[Value]:
            full = length - length % count
            values = e.loop(
                full,
                values,
                lambda k, *v: body([at(outer, k.plus(n)) for n in range(count)], *v),
                step=count,
            )
            return e.loop(length, values, lambda k, *v: body([at(outer, k)], *v), lower=full)

        if not slow:
            return rows([], *carried)
        sizes = [form.sizes[d] for d in slow]
        return e.loop(prod(sizes), carried, lambda k, *v: rows(e.indices.digits(k, sizes), *v))

    def _index(self, row: list[Affine], columns: list[Affine]) -> tuple[Affine, ...]:
        form = self.form
        index = [ZERO] * len(form.sizes)
        for d, x in zip(self.kept, self.outer):
            index[d] = x
        for d, x in zip(form.folded, row):
            index[d] = x
        index[form.folded[-1] + 1 :] = columns
        return tuple(index)

    # -- folding

    def _fold(
        self, rows: list[list[Affine]], columns: list[Affine], carried: Sequence[Value]
    ) -> list[Value]:
        """Some rows of one tile of columns folded into the carried values."""
        e, b = self.e, self.frame.builder
        shape = e.tile
        result: list[Value] = []
        taken = 0
        for x in self.form.reduces:
            inputs = _inputs(x)
            mine = list(carried[taken : taken + len(inputs)])
            taken += len(inputs)
            kind = fold_kind(x.called[0]) if len(inputs) == 1 else None
            found = [
                [b.broadcast(e.value(y, self._index(row, columns)), shape) for y in inputs]
                for row in rows
            ]
            if kind is None:
                for values in found:
                    mine = [b.broadcast(y, shape) for y in apply(e, x.called[0], [*mine, *values])]
            else:
                parts = [values[0] for values in found]
                while len(parts) > 1:
                    pairs = [b.binary(kind, p, q) for p, q in zip(parts[::2], parts[1::2])]
                    parts = pairs + parts[len(pairs) * 2 :]
                mine = [b.binary(kind, mine[0], parts[0])]
            result += mine
        return result

    def _initial(self, shape: tuple[int, ...]) -> list[Value]:
        e = self.e
        inits = [y for x in self.form.reduces for y in x.operands[len(_inputs(x)) :]]
        return [e.builder.broadcast(e.value(y, ()), shape) for y in inits]

    def _in_registers(self, start: Affine, size: int) -> None:
        e = self.e
        pieces = self._pieces(size)
        carried: list[Value] = []
        tiles = []
        for begin, lanes in pieces:
            tiles.append((self._columns_at(start.plus(begin), lanes), e.tile))
            carried += self._initial(e.tile)
        each = len(carried) // len(pieces)

        def step(rows: list[list[Affine]], *values: Value) -> Sequence[Value]:
            new: list[Value] = []
            for number, (columns, shape) in enumerate(tiles):
                e.tile = shape
                new += self._fold(rows, columns, values[number * each : (number + 1) * each])
            return new

        results = self._stream(carried, step)
        for number, (columns, shape) in enumerate(tiles):
            e.tile = shape
            self._finish(columns, results[number * each : (number + 1) * each])

    def _in_memory(self, start: Affine, size: int) -> None:
        e, b = self.e, self.frame.builder
        inputs = [y for x in self.form.reduces for y in _inputs(x)]
        scratch = [b.alloc(y.shape.dtype, size) for y in inputs]
        full = size - size % self.lanes

        def tiles(write: Callable[[list[Affine], Affine], None]) -> None:
            """Calls `write(columns, offset)` for every tile of the block."""

            def one(k: Affine) -> Sequence[Value]:
                write(self._columns_at(start.plus(k), self.lanes), k)
                return ()

            e.loop(full, (), one, step=self.lanes)
            for begin, lanes in self._pieces(size):
                if begin >= full:
                    write(self._columns_at(start.plus(begin), lanes), constant(begin))

        def fill(columns: list[Affine], k: Affine) -> None:
            for buffer, x in zip(scratch, self._initial(e.tile)):
                b.store(buffer, e.scalar(k), x, (1,) * len(e.tile))

        def kept(k: Affine) -> list[Value]:
            ones = (1,) * len(e.tile)
            return [b.load(buffer, e.scalar(k), e.tile, ones) for buffer in scratch]

        def step(rows: list[list[Affine]]) -> Sequence[Value]:
            def write(columns: list[Affine], k: Affine) -> None:
                new = self._fold(rows, columns, kept(k))
                for buffer, x in zip(scratch, new):
                    b.store(buffer, e.scalar(k), x, (1,) * len(e.tile))

            tiles(write)
            return ()

        tiles(fill)
        self._stream((), step)
        tiles(lambda columns, k: self._finish(columns, kept(k)))

    def _finish(self, columns: list[Affine], values: Sequence[Value]) -> None:
        """Store the results for one tile, whose reductions are known."""
        e = self.e
        saved, e.floor = e.floor, e.builder.depth
        taken = 0
        for x in self.form.reduces:
            count = len(_inputs(x))
            mine = tuple(values[taken : taken + count])
            taken += count
            e.given[x] = mine if x.shape.is_tuple else mine[0]
        inner = self.form.inner
        position = [*self.outer, *columns]
        sizes = [*[self.form.sizes[d] for d in self.kept], *inner]
        stores = []
        for number, (root, part) in enumerate(self.frame.body.roots):
            shape = root.shape.subshape(part)
            at = reshaped(e, tuple(position), tuple(sizes), shape.dims)
            found = e.result(root, at)
            value = found[part[0]] if isinstance(found, tuple) else found
            stores.append((self.frame.outputs[number], at, value))
        for target, at, value in stores:
            e.store(target, at, value)
        e.given.clear()
        e.floor = saved


_FREE = frozenset("constant broadcast reshape bitcast tuple get-tuple-element reduce".split())
