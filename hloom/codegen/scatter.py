"""Scatter: kernels that write where data says.

The output holds the operand already (the two share a buffer). The grid cuts the dimensions that
batches of scatters share, and the window where its place is fixed: steps own disjoint elements, so
nothing needs to be atomic. Each step walks the indices of its batch in order. Along dimensions that
an index moves it in, windows may overlap, so one step walks them. Where nothing is left to cut the
grid has one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.blocked_fold import Restart, blocked_loop, fold_kind, identity
from hloom.codegen.combiner import apply
from hloom.codegen.elements import Elements, Index, Source
from hloom.codegen.elements_data import both
from hloom.codegen.fold import nest
from hloom.codegen.scratch_sums import ScratchSums, Sums, sums_of
from hloom.codegen.tile import Body, Emitted, KernelEmitter, compute_bytes
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import PRED, S64, Value

LANES_OF_WINDOW = 4


def scatter_kernel(i: Instruction, device: Device) -> Emitted:
    """A kernel that applies the updates of a scatter to its output, which holds the operand."""
    count = (len(i.operands) - 1) // 2
    updates = i.operands[count + 1 :]
    update = updates[0].shape
    window = list(i.attrs.update_window_dims)
    shared = _shared(i, window)
    batch = [d for d in range(update.rank) if d not in window]
    walked_batch = [d for d in batch if d not in shared]
    minor = window[-1] if window else None
    length = update.dims[minor] if minor is not None else 1
    width = max(compute_bytes(x.shape.dtype) for x in updates)
    lanes = min(max(device.compute.vector_bytes // width, 1) * LANES_OF_WINDOW, length)
    moved = _moved(i, window)
    sums = None if moved else sums_of(i, count, walked_batch, lanes, device)
    if sums is not None:
        lanes = sums.lanes
    cut = [*shared, *[d for d in window[:-1] if d not in moved]]
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
    writer = _Scatter(emitter, i, batch, walked_batch)
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


def _shared(i: Instruction, window: list[int]) -> dict[int, int]:
    """The dimensions of the updates that batches share, with that of the operand for each."""
    a = i.attrs
    batch = [d for d in range(i.operands[-1].shape.rank) if d not in window]
    pairs = zip(a.input_batching_dims, a.scatter_indices_batching_dims, strict=True)
    return {batch[s if s < a.index_vector_dim else s - 1]: d for d, s in pairs}


def _leaves(i: Instruction, count: int) -> list[tuple[Instruction, int]]:
    """Indices and updates; the operands stand in the outputs."""
    return [(x, i.operands.index(x)) for x in dict.fromkeys(i.operands[count:])]


def _roots(i: Instruction, count: int) -> list[tuple[Instruction, tuple[int, ...]]]:
    return [(i, (k,) if i.shape.is_tuple else ()) for k in range(count)]


class _Scatter:
    """Writes the update of one index vector."""

    def __init__(
        self, emitter: KernelEmitter, i: Instruction, batch: list[int], walked: list[int]
    ) -> None:
        self.e: Elements = emitter.elements
        self.i = i
        self.batch = batch
        self.walked = walked
        """Of the dimensions of the batch, those that a step goes through."""
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
            for d, x in zip(self.walked, position):
                at[d] = x
            self.update(tuple(at), [at[d] for d in self.batch])
            return ()

        nest(self.e, [self.updates[0].shape.dims[d] for d in self.walked], (), one)

    def summed_updates(self, at: list[Affine], minor: int | None, lanes: int, sums: Sums) -> None:
        """As `all_updates`, with the sums in scratch; no index moves the window."""
        a, dims = self.i.attrs, self.operands[0].shape.dims
        places = {d: dims[d] for d in sorted(a.inserted_window_dims)}
        gone = {*places, *a.input_batching_dims}
        window_dims = [d for d in range(len(dims)) if d not in gone]
        index = [ZERO] * len(dims)
        for w, d in _shared(self.i, list(a.update_window_dims)).items():
            index[d] = at[w]
        for d, w in zip(window_dims, a.update_window_dims):
            index[d] = at[w]
        along = window_dims[list(a.update_window_dims).index(minor)] if minor is not None else None

        def scratch() -> ScratchSums:
            return ScratchSums(self.e, self.outputs[0], places, along, lanes, sums.of)

        if not sums.block:
            self._in_copies(at, [scratch() for _ in range(sums.copies)], index)
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

        sizes = [self.updates[0].shape.dims[d] for d in self.walked]

        def one(k: Affine) -> Sequence[Value]:
            for d, x in zip(self.walked, self.e.indices.digits(k, sizes)):
                at[d] = x
            self.update(tuple(at), [at[d] for d in self.batch])
            return ()

        blocked_loop(self.e, prod(sizes), (), one, Restart(begin, join), run=sums.block)

    def _in_copies(
        self, at: list[Affine], copies: Sequence[ScratchSums], index: Sequence[Affine]
    ) -> None:
        """All updates, of as many neighbours as there are copies each in its own."""
        e, kind, of = self.e, self.kind or "add", copies[0].of
        neutral = e.builder.constant(of, identity(kind, of))
        copies[0].fill(index)
        for copy in copies[1:]:
            copy.fill(index, neutral)
        sizes = [self.updates[0].shape.dims[d] for d in self.walked]

        def one(k: Affine, own: ScratchSums) -> Sequence[Value]:
            for d, x in zip(self.walked, e.indices.digits(k, sizes)):
                at[d] = x
            self.own.append(own)
            self.update(tuple(at), [at[d] for d in self.batch])
            self.own.pop()
            return ()

        def neighbours(k: Affine) -> Sequence[Value]:
            for n, copy in enumerate(copies):
                one(k.plus(constant(n)), copy)
            return ()

        count = prod(sizes)
        whole = count - count % len(copies)
        e.loop(whole, (), neighbours, step=len(copies))
        for k in range(whole, count):
            one(constant(k), copies[0])
        for copy in copies[1:]:
            copy.add_to(copies[0], index, kind)
        copies[0].finish(index)

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
