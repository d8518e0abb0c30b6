"""Reductions that keep the fastest dimension: rows are read whole and added to accumulators.

Going down each column by itself would touch a page for every few elements. Here a step owns a
block of columns and streams over the rows, several at a time. Few columns stay in registers; many
are kept in a scratch buffer that lies in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.blocked_fold import (
    Restart,
    blocked_loop,
    chain_of,
    fold_kinds,
    gains,
    neutral,
    restart_of,
)
from hloom.codegen.column_form import ColumnForm, reduce_inputs
from hloom.codegen.combiner import apply
from hloom.codegen.elements import Elements
from hloom.codegen.elements_data import reshaped
from hloom.codegen.extreme_keys import extreme_keys
from hloom.codegen.tile import Body, Emitted, KernelEmitter, compute_bytes
from hloom.device.device import Device
from hloom.ir.op import opcodes
from hloom.ir.traits import PLUMBING, RESHAPES
from hloom.kernel.kernel import Value

# Columns of one step, in bytes of one accumulator, where they are kept in memory: a share of the
# nearest cache.
BLOCK_SHARE = 1 / 4
# Where there are fewer blocks than cores they are cut smaller, but not below so many vectors of
# what is read.
LEAST_VECTORS = 16
# The part of the registers in which vectors are accumulated.
REGISTER_SHARE = 1 / 4
# Rows that are added together, by the work of an element.
MANY_ROWS, SOME_ROWS = 8, 4
CHEAP, MODERATE = 3.0, 12.0


def column_kernel(body: Body, form: ColumnForm, device: Device) -> Emitted:
    """A kernel that streams over rows and accumulates columns."""
    inner = form.inner
    outer = tuple([form.sizes[d] for d in form.kept_dims])
    columns = prod(inner)
    width = _width(body, form, device)
    lanes = min(max(device.compute.vector_bytes // width, 1), columns)
    accumulators = sum(len(reduce_inputs(x)) for x in form.reduces)
    most = int(device.nearest_bytes * BLOCK_SHARE)
    block = min(max(most // width // accumulators, lanes) // lanes * lanes, columns)
    read = max([width, *[compute_bytes(x.shape.dtype) for x, _ in body.leaves]])
    least = LEAST_VECTORS * max(device.compute.vector_bytes // read, 1)
    parts = min(device.compute.units, max(1, (columns - 1) // least))
    if -(-columns // lanes) * accumulators <= _registers(device):
        block = columns
    elif parts > 1 and columns <= parts * block:
        block = -(-columns // parts // lanes) * lanes
    blocks = -(-columns // block)
    emitter = KernelEmitter(body, (prod(outer), blocks), device)
    writer = _Columns(emitter, form, lanes, block)
    e, b = emitter.elements, emitter.builder
    row = e.indices.scalar(b.grid_indices[0], 0, max(prod(outer) - 1, 0))
    writer.outer = e.indices.digits(row, outer)
    writer.write(b.grid_indices[1], blocks, columns)
    return emitter.finish()


def _width(body: Body, form: ColumnForm, device: Device) -> int:
    """The bytes of the widest element that is folded, as it is folded."""
    inputs = [y for x in form.reduces for y in reduce_inputs(x)]
    types = [y.shape.dtype for y in inputs]
    keys = extreme_keys(device, form.kinds, types)
    leaves = {x for x, _ in body.leaves}
    if keys is not None and all(keys.floats) and leaves.issuperset(inputs):
        return max(of.size_bytes for of in types)
    return max(map(compute_bytes, types))


def _registers(device: Device) -> int:
    """How many vectors are accumulated in registers at most."""
    return int(device.compute.vector_registers * REGISTER_SHARE)


OfTile = Callable[[list[Affine], Affine], None]


class _Columns:
    """Writes one step: a block of columns."""

    def __init__(
        self,
        emitter: KernelEmitter,
        form: ColumnForm,
        lanes: int,
        block: int,
    ) -> None:
        self.emitter = emitter
        self.form = form
        self.kept_dims = form.kept_dims
        self.lanes = lanes
        self.block = block
        self.outer: list[Affine] = []
        inputs = [y for x in form.reduces for y in reduce_inputs(x)]
        self.types = [y.shape.dtype for y in inputs]
        self.keys = extreme_keys(emitter.elements.device, form.kinds, self.types)
        if self.keys is not None:
            self.types = self.keys.types(self.types)
        cost = len([x for x in emitter.body.instructions if x.opcode not in _FREE])
        self.rows = MANY_ROWS if cost <= CHEAP else SOME_ROWS if cost <= MODERATE else 1

    @property
    def e(self) -> Elements:
        return self.emitter.elements

    def write(self, number: Value, blocks: int, columns: int) -> None:
        """One of the blocks; the last may be smaller."""
        accumulators = sum(len(reduce_inputs(x)) for x in self.form.reduces)
        if blocks == 1 and -(-columns // self.lanes) * accumulators <= _registers(self.e.device):
            self._in_registers(ZERO, columns)
        else:
            self._in_memory(self.e.indices.scalar(number, 0, blocks - 1), blocks, columns)

    # -- positions

    def _pieces(self, size: int) -> list[tuple[int, int]]:
        """Where tiles begin, and how many lanes each has: full ones, then the rest."""
        full = size - size % self.lanes
        pieces = [(k, self.lanes) for k in range(0, full, self.lanes)]
        return [*pieces, (full, size - full)] if full < size else pieces

    def _columns_at(self, start: Affine, lanes: int) -> list[Affine]:
        e = self.e
        e.tile = (lanes,) if lanes > 1 else ()
        return e.indices.digits(start.plus(e.indices.lane(0, lanes, 1)), self.form.inner)

    def _stream(
        self,
        carried: Sequence[Value],
        body: Callable[..., Sequence[Value]],
        restart: Restart | None,
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
            values = blocked_loop(
                e,
                full,
                values,
                lambda k, *v: body([at(outer, k.plus(n)) for n in range(count)], *v),
                restart,
                step=count,
            )
            return e.loop(length, values, lambda k, *v: body([at(outer, k)], *v), lower=full)

        if not slow:
            return rows([], *carried)
        sizes = [form.sizes[d] for d in slow]
        chain = chain_of(length // count) + length % count

        def line(k: Affine, *values: Value) -> Sequence[Value]:
            return rows(e.indices.digits(k, sizes), *values)

        return blocked_loop(e, prod(sizes), carried, line, restart, chain=chain)

    def _index(self, row: list[Affine], columns: list[Affine]) -> tuple[Affine, ...]:
        form = self.form
        index = [ZERO] * len(form.sizes)
        for d, x in zip(self.kept_dims, self.outer):
            index[d] = x
        for d, x in zip(form.folded, row):
            index[d] = x
        index[len(index) - len(columns) :] = columns
        return tuple(index)

    # -- folding

    def _fold(
        self, rows: list[list[Affine]], columns: list[Affine], carried: Sequence[Value]
    ) -> list[Value]:
        """Some rows of one tile of columns folded into the carried values."""
        e, b = self.e, self.emitter.builder
        shape = e.tile
        result: list[Value] = []
        used_count = 0
        for x in self.form.reduces:
            inputs = reduce_inputs(x)
            mine = list(carried[used_count : used_count + len(inputs)])
            keys = self.keys and self.keys.of(used_count, len(inputs))
            used_count += len(inputs)
            kinds = fold_kinds(x.called[0])
            row_values = [
                [b.broadcast(e.value(y, self._index(row, columns)), shape) for y in inputs]
                for row in rows
            ]
            if kinds is None:
                for values in row_values:
                    mine = [b.broadcast(y, shape) for y in apply(e, x.called[0], [*mine, *values])]
                result += mine
                continue
            if keys is not None:
                row_values = [keys.keys(e, values) for values in row_values]
            for number, kind in enumerate(kinds):
                parts = [values[number] for values in row_values]
                while len(parts) > 1:
                    pairs = [b.binary(kind, p, q) for p, q in zip(parts[::2], parts[1::2])]
                    parts = pairs + parts[len(pairs) * 2 :]
                result.append(b.binary(kind, mine[number], parts[0]))
        return result

    def _initial(self, shape: tuple[int, ...]) -> list[Value]:
        e = self.e
        inits = [y for x in self.form.reduces for y in x.operands[len(reduce_inputs(x)) :]]
        values = [e.value(y, ()) for y in inits]
        if self.keys is not None:
            values = self.keys.keys(e, values)
        return [e.builder.broadcast(x, shape) for x in values]

    def _neutral(self, shape: tuple[int, ...]) -> list[Value]:
        """What changes nothing in any of the sums."""
        pairs = zip(self.form.kinds or [], self.types)
        return [self.emitter.builder.constant(t, neutral(k, t), shape) for k, t in pairs]

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

        kinds = self.form.kinds
        restart = restart_of(e, None if kinds is None else kinds * len(tiles), carried)
        results = self._stream(carried, step, restart)
        for number, (columns, shape) in enumerate(tiles):
            e.tile = shape
            self._finish(columns, results[number * each : (number + 1) * each])

    def _in_memory(self, number: Affine, blocks: int, columns: int) -> None:
        e, b = self.e, self.emitter.builder
        # What is being summed, and what it will be joined to.
        scratch: list[list[Value]] = []
        tiles = self._tiles(number, blocks, columns)

        def fill(values: Callable[[tuple[int, ...]], list[Value]]) -> Sequence[Value]:
            """Begin sums of their own."""
            with b.at(0):
                scratch.append([b.alloc(of, self.block) for of in self.types])
            tiles(lambda columns, k: keep(k, values(e.tile)))
            return ()

        def keep(k: Affine, values: Sequence[Value]) -> None:
            for buffer, x in zip(scratch[-1], values):
                b.store(buffer, e.scalar(k), x, (1,) * len(e.tile))

        def kept_accumulators(k: Affine, of: list[Value]) -> list[Value]:
            ones = (1,) * len(e.tile)
            return [b.load(buffer, e.scalar(k), e.tile, ones) for buffer in of]

        def step(rows: list[list[Affine]]) -> Sequence[Value]:
            tiles(
                lambda columns, k: keep(
                    k, self._fold(rows, columns, kept_accumulators(k, scratch[-1]))
                )
            )
            return ()

        known = self.form.kinds
        kinds = known or []

        def join(_: Sequence[Value], __: Sequence[Value]) -> Sequence[Value]:
            block = scratch.pop()

            def add(columns: list[Affine], k: Affine) -> None:
                pairs = zip(kinds, kept_accumulators(k, scratch[-1]), kept_accumulators(k, block))
                keep(k, [b.binary(kind, x, y) for kind, x, y in pairs])

            tiles(add)
            return ()

        fill(self._initial)
        is_cut = gains(known, self.types)
        restart = Restart(lambda: fill(self._neutral), join) if is_cut else None
        self._stream((), step, restart)
        tiles(lambda columns, k: self._finish(columns, kept_accumulators(k, scratch[-1])))

    def _tiles(self, number: Affine, blocks: int, columns: int) -> Callable[[OfTile], None]:
        """What calls `write(columns, offset)` for every tile of a block. What is left behind the
        last whole vector of all columns is the last tile of the last block: so all blocks are one
        code, and no row has its end written in pieces."""
        e, b, block = self.e, self.emitter.builder, self.block
        start = number.times(block)
        full = columns - columns % self.lanes
        first = e.scalar(start)
        upper: Value | int = full
        if blocks > 1:
            upper = b.binary("add", first, b.index(block))
            if columns % block:
                upper = b.binary("minimum", upper, b.index(full))

        def tiles(write: OfTile) -> None:
            def one(k: Value) -> Sequence[Value]:
                at = e.indices.scalar(k, 0, full - self.lanes, self.lanes)
                write(self._columns_at(at, self.lanes), at.plus(start.times(-1)))
                return ()

            def rest() -> Sequence[Value]:
                at = constant(full)
                write(self._columns_at(at, columns - full), at.plus(-(blocks - 1) * block))
                return ()

            if full:
                e.for_(first, upper, self.lanes, (), one)
            if full < columns:
                self._in_last(number, blocks, rest)

        return tiles

    def _in_last(self, number: Affine, blocks: int, write: Callable[[], Sequence[Value]]) -> None:
        """Writes what the last block does alone."""
        e, b = self.e, self.emitter.builder
        if blocks == 1:
            write()
            return

        def inside() -> Sequence[Value]:
            # Elsewhere what is read there would be read by all blocks.
            floor, e.floor = e.floor, b.depth
            write()
            e.forget(b.depth)
            e.floor = floor
            return ()

        b.if_(b.compare("EQ", e.scalar(number), b.index(blocks - 1)), inside, lambda: ())

    def _finish(self, columns: list[Affine], values: Sequence[Value]) -> None:
        """Store the results for one tile, whose reductions are known."""
        e = self.e
        saved, e.floor = e.floor, e.builder.depth
        if self.keys is not None:
            values = self.keys.floats_of(e, values)
        used_count = 0
        for x in self.form.reduces:
            count = len(reduce_inputs(x))
            mine = tuple(values[used_count : used_count + count])
            used_count += count
            e.supplied[x] = mine if x.shape.is_tuple else mine[0]
        inner = self.form.inner
        position = [*self.outer, *columns]
        sizes = [*[self.form.sizes[d] for d in self.kept_dims], *inner]
        stores = []
        for number, (root, part) in enumerate(self.emitter.body.roots):
            shape = root.shape.subshape(part)
            at = reshaped(e, tuple(position), tuple(sizes), shape.dims)
            result = e.result(root, at)
            value = result[part[0]] if isinstance(result, tuple) else result
            stores.append((self.emitter.outputs[number], at, value))
        for target, at, value in stores:
            e.store(target, at, value)
        e.supplied.clear()
        e.floor = saved


_FREE = opcodes(PLUMBING, RESHAPES, also=("broadcast", "reduce"))
