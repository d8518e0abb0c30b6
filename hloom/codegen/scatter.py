"""Scatter and select-and-scatter: kernels that write where data says.

The output holds the operand already (the two share a buffer). Scatter walks the indices in order
on every step of the grid, and the grid cuts the window where its place is fixed: steps own disjoint
elements, so nothing needs to be atomic. Along dimensions that an index moves it in, windows may
overlap, so one step walks them. Where nothing is left to cut the grid has one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.blocked_fold import Restart, blocked_loop, fold_kind
from hloom.codegen.elements import Elements, Index, Source
from hloom.codegen.elements_data import both
from hloom.codegen.elements_fold import apply, nest
from hloom.codegen.elements_window import window_position
from hloom.codegen.scratch_sums import ScratchSums, Sums, selected_type, sums_of
from hloom.codegen.tile import Body, Emitted, KernelEmitter, compute_bytes
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import PRED, S64, Value

# Shorter rows that fill no vectors go element by element.
LEAST_ROW = 8
LANES_OF_WINDOW = 4


def scatter_kernel(i: Instruction, device: Device) -> Emitted:
    """A kernel that applies the updates of a scatter to its output, which holds the operand."""
    count = (len(i.operands) - 1) // 2
    updates = i.operands[count + 1 :]
    update = updates[0].shape
    window = list(i.attrs.update_window_dims)
    batch = [d for d in range(update.rank) if d not in window]
    minor = window[-1] if window else None
    length = update.dims[minor] if minor is not None else 1
    width = max(compute_bytes(x.shape.dtype) for x in updates)
    lanes = min(max(device.compute.vector_bytes // width, 1) * LANES_OF_WINDOW, length)
    moved = _moved(i, window)
    sums = None if moved else sums_of(i, count, batch, lanes, device)
    if sums is not None:
        lanes = sums.lanes
    cut = [d for d in window[:-1] if d not in moved]
    walked = [d for d in window[:-1] if d in moved]
    tiles = 1 if minor in moved else -(-length // max(lanes, 1))
    body = Body(i.name, i.shape.is_tuple, _leaves(i, count), _roots(i, count), [i])
    rows = prod(update.dims[d] for d in cut)
    emitter = KernelEmitter(body, (rows * tiles,) if update.size else (0,), device, in_place=True)
    if update.size == 0:
        return emitter.finish()
    e = emitter.elements
    step = e.indices.scalar(emitter.builder.grid_indices[0], 0, rows * tiles - 1)
    positions = e.indices.digits(e.indices.quotient(step, tiles), [update.dims[d] for d in cut])
    writer = _Scatter(emitter, i, batch)
    at = [ZERO] * update.rank
    for d, x in zip(cut, positions):
        at[d] = x

    def write(start: Affine, lanes: int) -> None:
        e.tile = (lanes,) if lanes > 1 else ()
        if minor is not None:
            at[minor] = start.plus(e.indices.lane(0, lanes, 1))
        if sums is None:
            writer.all_updates(at)
        else:
            writer.summed_updates(at, minor, lanes, sums)

    def whole(position: Sequence[Affine]) -> Sequence[Value]:
        for d, x in zip(walked, position):
            at[d] = x
        if minor not in moved:
            e.one_tile(e.indices.remainder(step, tiles), lanes, length, write)
            return ()
        full = length - length % lanes
        e.loop(full, (), lambda start: write(start, lanes) or (), step=lanes)
        if full < length:
            write(constant(full), length - full)
        return ()

    nest(e, [update.dims[d] for d in walked], (), whole)
    return emitter.finish()


def _moved(i: Instruction, window: list[int]) -> set[int]:
    """The window dimensions of the updates along which an index says where the window stands."""
    a = i.attrs
    gone = {*a.inserted_window_dims, *a.input_batching_dims}
    operand, update = i.operands[0].shape, i.operands[-1].shape
    window_dims = [d for d in range(operand.rank) if d not in gone]
    return {
        w
        for d, w in zip(window_dims, window)
        if d in a.scatter_dims_to_operand_dims and operand.dims[d] > update.dims[w]
    }


def _leaves(i: Instruction, count: int) -> list[tuple[Instruction, int]]:
    """Indices and updates; the operands stand in the outputs."""
    return [(x, i.operands.index(x)) for x in dict.fromkeys(i.operands[count:])]


def _roots(i: Instruction, count: int) -> list[tuple[Instruction, tuple[int, ...]]]:
    return [(i, (k,) if i.shape.is_tuple else ()) for k in range(count)]


class _Scatter:
    """Writes the update of one index vector."""

    def __init__(self, emitter: KernelEmitter, i: Instruction, batch: list[int]) -> None:
        self.e: Elements = emitter.elements
        self.i = i
        self.batch = batch
        self.count = (len(i.operands) - 1) // 2
        self.operands = i.operands[: self.count]
        self.indices = i.operands[self.count]
        self.updates = i.operands[self.count + 1 :]
        self.outputs: list[Source] = emitter.outputs
        self.kind = fold_kind(i.called[0]) if self.count == 1 else None
        self.own: list[ScratchSums] = []
        """Where sums are kept instead of the output: the last of these."""

    def all_updates(self, at: list[Affine]) -> None:
        """The updates of every index vector in order; `at` is the place in the window."""

        def one(position: Sequence[Affine]) -> Sequence[Value]:
            for d, x in zip(self.batch, position):
                at[d] = x
            self.update(tuple(at), [at[d] for d in self.batch])
            return ()

        nest(self.e, [self.updates[0].shape.dims[d] for d in self.batch], (), one)

    def summed_updates(self, at: list[Affine], minor: int | None, lanes: int, sums: Sums) -> None:
        """As `all_updates`, with the sums in scratch; no index moves the window."""
        a, dims = self.i.attrs, self.operands[0].shape.dims
        places = {d: dims[d] for d in sorted((*a.inserted_window_dims, *a.input_batching_dims))}
        window_dims = [d for d in range(len(dims)) if d not in places]
        index = [ZERO] * len(dims)
        for d, w in zip(window_dims, a.update_window_dims):
            index[d] = at[w]
        along = window_dims[list(a.update_window_dims).index(minor)] if minor is not None else None

        def scratch() -> ScratchSums:
            return ScratchSums(self.e, self.outputs[0], places, along, lanes, sums.of)

        if not sums.block:
            own = scratch()
            own.fill(index)
            self.own.append(own)
            self.all_updates(at)
            self.own.pop().finish(index)
            return
        zero = self.e.builder.constant(sums.of, -0.0 if sums.of.is_floating else 0)

        def begin() -> Sequence[Value]:
            self.own.append(scratch())
            self.own[-1].fill(index, zero)
            return ()

        def join(_: Sequence[Value], __: Sequence[Value]) -> Sequence[Value]:
            block = self.own.pop()
            block.add_to(self.own[-1] if self.own else None, index)
            return ()

        sizes = [self.updates[0].shape.dims[d] for d in self.batch]

        def one(k: Affine) -> Sequence[Value]:
            for d, x in zip(self.batch, self.e.indices.digits(k, sizes)):
                at[d] = x
            self.update(tuple(at), [at[d] for d in self.batch])
            return ()

        blocked_loop(self.e, prod(sizes), (), one, Restart(begin, join), run=sums.block)

    def update(self, at: Index, batch: list[Affine]) -> None:
        """Combine the updates at an index with the outputs, if their window is inside."""
        e, b, a = self.e, self.e.builder, self.i.attrs
        sizes = self.operands[0].shape.dims
        gone = {*a.inserted_window_dims, *a.input_batching_dims}
        window_dims = [d for d in range(len(sizes)) if d not in gone]
        target = [ZERO] * len(sizes)
        extent = [1] * len(sizes)
        for d, w in zip(window_dims, a.update_window_dims):
            target[d] = at[w]
            extent[d] = self.updates[0].shape.dims[w]
        vector = a.index_vector_dim
        inside: Value | None = None
        for k, d in enumerate(a.scatter_dims_to_operand_dims):
            position = list(batch)
            if vector < self.indices.shape.rank:
                position.insert(vector, constant(k))
            start = e.value(self.indices, tuple(position))
            room = sizes[d] - extent[d]
            inside = both(e, inside, self._fits(start, room))
            # Nothing is written where it does not fit, so that it need not be clamped.
            target[d] = target[d].plus(e.indices.scalar(b.convert(start, S64), 0, max(room, 0)))
        for d, s in zip(a.input_batching_dims, a.scatter_indices_batching_dims):
            target[d] = target[d].plus(batch[s if s < vector else s - 1])

        def combine() -> Sequence[Value]:
            self._combine(at, tuple(target))
            e.forget(b.depth)
            return ()

        if inside is None:
            combine()
        else:
            b.if_(inside, combine, lambda: ())
            e.forget(b.depth + 1)

    def _fits(self, start: Value, room: int) -> Value | None:
        """Whether the window of an index lies within the operand."""
        e, b = self.e, self.e.builder
        if room < 0:
            return b.constant(PRED, False)
        if start.dtype.is_unsigned_int:
            if start.dtype.bits < 64 and room >= (1 << start.dtype.bits) - 1:
                return None
            return b.compare("LE", start, b.constant(start.dtype, room))
        number = b.convert(start, S64)
        low = b.compare("GE", number, b.index(0))
        return both(e, low, b.compare("LE", number, b.index(room)))

    def _combine(self, at: Index, target: Index) -> None:
        e, b, i = self.e, self.e.builder, self.i
        values = [e.value(x, at) for x in self.updates]
        shape = e.shape_of(frozenset().union(*[x.axes for x in target]))
        values = [b.broadcast(x, shape) for x in values]
        outputs = self.outputs
        if self.own:
            own = self.own[-1]
            outputs, target = [own.source], own.place(target)
            values = [b.convert(values[0], own.of)]
        old = [e.load(output, target) for output in outputs]
        if self.kind is not None:
            results = [b.binary(self.kind, old[0], values[0])]
        else:
            results = [b.broadcast(x, shape) for x in apply(e, i.called[0], [*old, *values])]
        for output, x in zip(outputs, results):
            e.store(output, target, x)


def select_and_scatter_kernel(i: Instruction, device: Device) -> Emitted:
    """A kernel for select-and-scatter: the grid cuts the dimensions without a window.

    Each step first fills its part of the output with the initial value, then walks the source:
    one pass over the window finds what is selected in every lane, the second adds there.
    """
    x, source, init = i.operands
    dims = i.attrs.window.dimensions
    sizes = i.shape.dims
    plain = [d for d, w in enumerate(dims) if w.is_trivial]
    windowed = [d for d in range(len(sizes)) if d not in plain]
    minor = plain[-1] if plain and plain[-1] == len(sizes) - 1 else None
    length = sizes[minor] if minor is not None else 1
    width = max(compute_bytes(x.shape.dtype), 4)
    lanes = min(max(device.compute.vector_bytes // width, 1), length)
    if length % lanes:
        lanes = 1 if length < LEAST_ROW else lanes
    grid_dims = [d for d in plain if d != minor]
    tiles = -(-length // lanes)
    body = Body(i.name, False, [(x, 0), (source, 1), (init, 2)], [(i, ())], [i])
    if i.operands.index(x) == i.operands.index(source):
        body.leaves = [(x, 0), (init, 2)]
    rows = prod(sizes[d] for d in grid_dims)
    emitter = KernelEmitter(body, (rows * tiles,), device)
    e = emitter.elements
    if 0 in sizes:
        return emitter.finish()
    number = e.indices.scalar(emitter.builder.grid_indices[0], 0, rows * tiles - 1)
    fixed = e.indices.digits(e.indices.quotient(number, tiles), [sizes[d] for d in grid_dims])
    tile = e.indices.remainder(number, tiles)
    writer = _SelectAndScatter(emitter, i, plain, windowed, minor, lanes)
    at = [ZERO] * len(sizes)
    for d, k in zip(grid_dims, fixed):
        at[d] = k
    e.one_tile(tile, lanes, length, lambda start, n: writer.run(at, start, n))
    return emitter.finish()


class _SelectAndScatter:
    """Writes one step: fill, then select and add at every position of the source."""

    def __init__(
        self,
        emitter: KernelEmitter,
        i: Instruction,
        plain: list[int],
        windowed: list[int],
        minor: int | None,
        lanes: int,
    ) -> None:
        self.emitter = emitter
        self.i = i
        self.plain = plain
        self.windowed = windowed
        self.minor = minor
        self.sums: ScratchSums | None = None
        """Where sums are kept instead of the output."""

    def run(self, at: list[Affine], start: Affine, lanes: int) -> None:
        e, b, i = self.emitter.elements, self.emitter.builder, self.i
        e.tile = (lanes,) if lanes > 1 else ()
        at = list(at)
        if self.minor is not None:
            at[self.minor] = start.plus(e.indices.lane(0, lanes, 1))
        output = self.emitter.outputs[0]
        places = {d: i.shape.dims[d] for d in self.windowed}
        init = b.broadcast(e.value(i.operands[2], ()), e.tile)
        of = selected_type(i, lanes, e.device)
        self.sums = ScratchSums(e, output, places, self.minor, lanes, of) if of else None

        def fill(position: Sequence[Affine]) -> Sequence[Value]:
            e.store(output, self._index(at, position), init)
            return ()

        if self.sums is None:
            nest(e, list(places.values()), (), fill)
        else:
            self.sums.fill(at, e.value(i.operands[2], ()))
        sizes = i.operands[1].shape.dims

        def visit(position: Sequence[Affine]) -> Sequence[Value]:
            self._visit(self._index(at, position))
            return ()

        nest(e, [sizes[d] for d in self.windowed], (), visit)
        if self.sums is not None:
            self.sums.finish(at)

    def _index(self, at: list[Affine], position: Sequence[Affine]) -> Index:
        index = list(at)
        for d, x in zip(self.windowed, position):
            index[d] = x
        return tuple(index)

    def _visit(self, at: Index) -> None:
        """Select within the window of one source position, and add there."""
        e, b, i = self.emitter.elements, self.emitter.builder, self.i
        x, source, _ = i.operands
        dims = i.attrs.window.dimensions
        extents = [dims[d].size for d in self.windowed]
        shape = e.tile
        best = b.constant(x.shape.dtype, 0, shape)
        chosen = b.constant(S64, -1, shape)

        def under(position: Sequence[Affine]) -> tuple[Index, Value | None, Affine]:
            offsets = [ZERO] * len(dims)
            number = ZERO
            for d, k in zip(self.windowed, position):
                offsets[d] = k
                number = number.times(dims[d].size).plus(k)
            where, inside = window_position(e, at, offsets, dims, x.shape.dims)
            return where, inside, number

        def look(position: Sequence[Affine], *carried: Value) -> Sequence[Value]:
            value, index = carried
            where, inside, number = under(position)
            elements = b.broadcast(e.value(x, where, inside), shape)
            [keep] = apply(e, i.called[0], [value, elements])
            first = b.compare("LT", index, b.constant(S64, 0, shape))
            take = b.binary("or", first, b.unary("not", b.broadcast(keep, shape)))
            if inside is not None:
                take = b.binary("and", take, b.broadcast(inside, shape))
            here = b.broadcast(e.scalar(number), shape)
            return [b.select(take, elements, value), b.select(take, here, index)]

        _, chosen = nest(e, extents, (best, chosen), look)
        source_values = b.broadcast(e.value(source, at), shape)

        def add(position: Sequence[Affine]) -> Sequence[Value]:
            where, inside, number = under(position)
            mask = b.compare("EQ", chosen, b.broadcast(e.scalar(number), shape))
            if inside is not None:
                mask = b.binary("and", mask, b.broadcast(inside, shape))
            if self.sums is not None:
                target, where = self.sums.source, self.sums.place(where)
            else:
                target = self.emitter.outputs[0]
            old = b.broadcast(e.load(target, where, mask), shape)
            if self.sums is not None:
                new = b.binary("add", old, b.convert(source_values, self.sums.of))
            else:
                [new] = apply(e, i.called[1], [old, source_values])
            e.store(target, where, b.broadcast(new, shape), mask)
            return ()

        nest(e, extents, (), add)
