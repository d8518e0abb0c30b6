"""Short rows: lanes go over rows, a vector of them at a time.

Along a row of ten elements most of a vector would be empty, and joining its lanes takes longer than
what is folded. A step takes as many rows as a vector has lanes, turns what it reads of them into
scratch (an element of each row side by side), folds and computes element by element in all rows at
once, and turns the results back on their way to memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from hloom.codegen.affine import ZERO, Affine
from hloom.codegen.elements import is_simple
from hloom.codegen.elements_fold import folds_own_types
from hloom.codegen.kept import Kept, KeptElements, Passes, is_row_fold, lies_in_rows, row_rank
from hloom.codegen.tile import Body, Emitted, KernelEmitter, compute_bytes, is_update
from hloom.codegen.work import element_work
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import RESHAPES
from hloom.kernel.kernel import Value

# Rows of up to so many vectors are turned: of longer ones enough lanes are full.
MOST_VECTORS = 2
# Work on each result that does not show beside a fold, though one result after the other does it.
MOST_AFTER = 20.0
# What asks for each element of what is in memory at its own place.
IN_PLACE = opcodes(RESHAPES, also=("copy", "reduce", "tuple"))


@dataclass
class ShortRows:
    """A body of many short rows."""

    rows: int
    columns: int
    lanes: int


def short_rows(body: Body, device: Device) -> ShortRows | None:
    """The body as one of short rows; None if it is something else."""
    folds = [x for x in body.instructions if x.opcode == "reduce"]
    if not folds or any(is_update(r) for r, _ in body.roots):
        return None
    of = folds[0].operands[0].shape
    columns = prod(of.dims[d] for d in folds[0].attrs.dimensions)
    if columns < 2 or of.size == 0:
        return None
    rows = of.size // columns
    for x in folds:
        if not x.shape.is_array or not folds_own_types(x) or not is_row_fold(x, rows, columns):
            return None
    for root, part in body.roots:
        shape = root.shape.subshape(part)
        if row_rank(shape, rows, columns) is None and row_rank(shape, rows, 1) is None:
            return None
    arrays = [x for x in (*[x for x, _ in body.leaves], *body.instructions) if x.shape.is_array]
    if any(x.shape.dtype.is_complex for x in arrays):
        return None
    wide = [x for x in arrays if x.shape.size == rows * columns] or arrays
    vector = device.compute.vector_bytes
    lanes = vector // min(max(compute_bytes(x.shape.dtype) for x in wide), 8)
    if columns > MOST_VECTORS * lanes or rows < lanes or lanes < 2:
        return None
    if len(folds) == 1 and _rereads(body, folds[0], rows, columns):
        after = [x for x in body.instructions if x is not folds[0] and x.shape.is_array]
        work = sum(element_work(x, device.costs) for x in after if x.shape.size == rows)
        if columns < lanes or work <= MOST_AFTER:
            return None
    return ShortRows(rows, columns, lanes)


def _rereads(body: Body, fold: Instruction, rows: int, columns: int) -> bool:
    """Whether all that is folded is made of rows that several results read, and nothing else is
    asked for: differences of all pairs of points. Lanes over results would read each element from
    another place; along a row they lie side by side, and of one of the two rows stay the same."""
    if any(r.shape.subshape(part).size != rows for r, part in body.roots):
        return False
    if any(row_rank(x.shape, rows, columns) is not None for x, _ in body.leaves):
        return False
    folded = fold.attrs.dimensions
    for x in body.instructions:
        if x.opcode == "broadcast" and x.shape.dims == fold.operands[0].shape.dims:
            varies = [d for d in x.attrs.dimensions if x.shape.dims[d] > 1]
            if any(d in folded for d in varies) and any(d not in folded for d in varies):
                return True
    return False


def short_row_kernel(body: Body, form: ShortRows, device: Device) -> Emitted:
    """A kernel whose steps take as many rows as a vector has lanes."""
    steps = -(-form.rows // form.lanes)
    emitter = KernelEmitter(body, (steps,), device, elements=KeptElements)
    writer = _ShortRows(emitter, form, device)
    e = emitter.elements
    number = e.indices.scalar(emitter.builder.grid_indices[0], 0, steps - 1)
    e.one_tile(number, form.lanes, form.rows, writer.write)
    return emitter.finish()


class _ShortRows:
    """Writes one step."""

    def __init__(self, emitter: KernelEmitter, form: ShortRows, device: Device) -> None:
        assert isinstance(emitter.elements, KeptElements)
        self.emitter = emitter
        self.form = form
        self.e = emitter.elements
        self.passes = Passes.of(emitter.body, form.rows, form.columns, device)
        self.e.columns = form.columns
        self.scratch = {x: self._scratch(x) for x in (*self._turned(), *self.passes.kept)}
        self.out: dict[int, Value] = {}
        for k, (root, part) in enumerate(emitter.body.roots):
            shape = root.shape.subshape(part)
            if row_rank(shape, form.rows, form.columns) is not None:
                size = form.columns * form.lanes
                self.out[k] = emitter.builder.alloc(shape.dtype, size)

    def _scratch(self, x: Instruction) -> Value:
        return self.emitter.builder.alloc(x.shape.dtype, self.form.columns * self.form.lanes)

    def _turned(self) -> list[Instruction]:
        """The leaves that are read row by row."""
        form, turned = self.form, []
        inside = {*self.emitter.body.instructions}
        for leaf, _ in self.emitter.body.leaves:
            if not lies_in_rows(leaf.shape, form.rows, form.columns):
                continue
            if all(is_simple(u) or u.opcode in IN_PLACE for u in leaf.users if u in inside):
                turned.append(leaf)
        return turned

    def write(self, start: Affine, lanes: int) -> None:
        """The rows from `start` on, as many as there are lanes."""
        e, form, emitter = self.e, self.form, self.emitter
        # What is read from scratch is known where it has been written, not before.
        floor, e.floor = e.floor, emitter.builder.depth
        row_lane = e.indices.lane(0, lanes, 1)
        # A last row by itself is folded along the row.
        e.row, e.lane = start.plus(row_lane), row_lane if lanes > 1 else None
        e.places = {
            x: Kept(buffer, row_rank(x.shape, form.rows, form.columns), lanes)
            for x, buffer in self.scratch.items()
        }
        for leaf in self._turned():
            self._read(leaf, start, lanes)
        e.tile = (lanes,) if lanes > 1 else ()
        e.fold_all(self.passes)
        results = []
        for k, (root, part) in enumerate(emitter.body.roots):
            if k not in self.out:
                index = tuple(e.indices.digits(e.row, root.shape.subshape(part).dims))
                results.append((emitter.outputs[k], index, e.value(root, index)))
        if self.out:
            e.loop(form.columns, (), lambda c: self._column(c, lanes))
        for target, index, value in results:
            e.store(target, index, value)
        for k, buffer in self.out.items():
            self._write_back(k, buffer, start, lanes)
        e.floor = floor

    def _column(self, c: Affine, lanes: int) -> tuple[Value, ...]:
        """One element of each row of all results."""
        e, b, form = self.e, self.emitter.builder, self.form
        for k, buffer in self.out.items():
            root, part = self.emitter.body.roots[k]
            dims = root.shape.subshape(part).dims
            rank = row_rank(root.shape.subshape(part), form.rows, form.columns) or 0
            index = (*e.indices.digits(e.row, dims[:rank]), *e.indices.digits(c, dims[rank:]))
            value = b.broadcast(e.value(root, index), e.tile)
            strides = (1,) if e.tile else ()
            b.store(buffer, e.scalar(c.times(lanes)), value, strides)
        return ()

    def _chunks(self, turn: Callable[[Affine, int], None]) -> None:
        """Calls `turn(start, size)` for chunks of columns: as many as rows, so that what is turned
        stays in registers. One loop turns those of full size: the text of a transpose is long."""
        e, columns, most = self.e, self.form.columns, self.form.lanes
        full = columns // most

        def one(k: Affine) -> tuple[Value, ...]:
            turn(k.times(most), most)
            return ()

        if full > 1:
            e.loop(full, (), one)
        elif full:
            turn(ZERO, most)
        if columns % most:
            turn(Affine(full * most), columns % most)

    def _read(self, leaf: Instruction, start: Affine, lanes: int) -> None:
        """Some rows of a leaf, turned into its scratch."""
        e, b, columns = self.e, self.emitter.builder, self.form.columns
        source, place = e.sources[leaf], e.places[leaf]

        def turn(c: Affine, count: int) -> None:
            offset = e.scalar(start.times(columns).plus(c))
            value = b.load(source.buffer, offset, (count, lanes), (1, columns))
            b.store(place.buffer, e.scalar(c.times(lanes)), value, (lanes, 1))

        self._chunks(turn)
        place.is_complete = True

    def _write_back(self, k: int, buffer: Value, start: Affine, lanes: int) -> None:
        """What is in scratch, turned on its way to a result."""
        e, b, columns = self.e, self.emitter.builder, self.form.columns

        def turn(c: Affine, count: int) -> None:
            value = b.load(buffer, e.scalar(c.times(lanes)), (count, lanes), (lanes, 1))
            offset = e.scalar(start.times(columns).plus(c))
            b.store(self.emitter.outputs[k].buffer, offset, value, (1, columns))

        self._chunks(turn)
