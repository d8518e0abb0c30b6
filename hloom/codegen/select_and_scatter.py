"""Select-and-scatter: kernels that find what each window selects, and add there."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloom.codegen.affine import ZERO, Affine
from hloom.codegen.combiner import apply
from hloom.codegen.elements import Index
from hloom.codegen.elements_window import window_position
from hloom.codegen.fold import nest
from hloom.codegen.scratch_sums import ScratchSums, selected_type
from hloom.codegen.tile import Body, Emitted, KernelEmitter, compute_bytes
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import S64, Value

# Shorter rows that fill no vectors go element by element.
LEAST_ROW = 8


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
