"""Loops whose elements go their own ways: all iterations of a tile, then those of the next.

A loop that computes element k of what it carries from element k alone (integrators, roots that are
searched for, recurrences over time of many series, paths of random walks) reads and writes all of
its state in each iteration when it runs step by step, and threads meet after each. Interchanged,
tiles of elements are outside and the iterations inside: the state of a tile stays in registers.

Scalars that are carried beside the arrays are computed for every tile; a second kernel leaves them,
and what is stored of them, in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloom.base.diagnostics import HloError, UnsupportedError
from hloom.codegen.affine import ZERO, Affine, linear
from hloom.codegen.elements import Elements, Index, Result, Source, strides_of
from hloom.codegen.elements_data import clamped_starts
from hloom.codegen.loops import LoopWriter
from hloom.codegen.nest import Nest
from hloom.codegen.tile import Body, BodyEmitter
from hloom.codegen.walk import Loops
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.kernel import kernel as kernels
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import Value
from hloom.program.slice import BufferSlice
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.thunk import Thunk
from hloom.program.thunks.while_ import While
from hloom.targets.cpu.lower.element_loop import (
    ElementLoop,
    Place,
    physical_sizes,
    update_size,
)
from hloom.targets.cpu.lower.loop_steps import Decline, LastStep, last_step, spare_byte
from hloom.targets.cpu.lowering import Lowering
from hloom.types.dtype import PRED, DType
from hloom.types.shape import Shape


def interchanged(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """The kernels of a loop, tiles outside; `Decline` if it is no such loop.

    A kernel cannot be told to stop: of long loops each call does some iterations, and a loop around
    both kernels calls them again.
    """
    loop = ElementLoop.of(cpu, i)
    loop.require_gain()
    steps = loop.steps_at_once()
    tiles, sizes = _Writer(cpu, loop, loop.carried.tiles, steps), physical_sizes(loop.domain)
    kernel = tiles.written(loop.walk(len(sizes)))
    if tiles.values.divides and len(sizes) > 1:  # it asks which row an element is in
        walk = loop.walk(inner_dims(sizes, cpu.device))
        if walk.length < loop.lanes:
            raise Decline("its rows are short")
        kernel = tiles.written(walk)
    parts = [(tiles, kernel)]
    rest = _Writer(cpu, loop, [], steps)
    if steps is not None:
        rest.pred = _pred(cpu, i)
    if rest.stores_something:
        parts.append((rest, rest.written(Loops((), (), (), 1, 1))))
    for _, kernel in parts:
        try:
            cpu.admit([kernel])
        except HloError as error:  # the loop is right all the same, step by step
            raise Decline(str(error)) from None
    thunks: tuple[Thunk, ...] = tuple([writer.thunk(kernel) for writer, kernel in parts])
    return list(thunks) if rest.pred is None else [While(i.name, thunks, rest.pred, ())]


def _pred(cpu: Lowering, i: Instruction) -> BufferSlice:
    """A byte that says whether a loop goes on, where it keeps nothing of its own."""
    pred = cpu.slice(i.called[0].root)
    places = [cpu.slice(i, x) for x, leaf in i.shape.subshapes() if leaf.is_array]
    if not any(place.overlaps(pred) for place in places):
        return pred
    spare = spare_byte(places)
    if spare is None:
        raise Decline("the byte of its condition stands where it keeps values")
    return spare


def inner_dims(sizes: Sequence[int], device: Device) -> int:
    """How many of the fastest dimensions lanes go along: a vector of elements at least."""
    count, length = 1, sizes[-1]
    while count < len(sizes) and length < device.compute.vector_bytes // 4:
        count += 1
        length *= sizes[-count]
    return count


class _Elements(Elements):
    """Elements of what a loop computes: through its fusions, and of its state at home."""

    within: ElementLoop
    scalars: dict[Place, Value]
    tiles: dict[Place, Value]
    fixed: dict[Place, Source]
    read: dict[tuple[Place, Index, Value | None], Value]
    """What the current block has read of them."""
    home: Affine
    """The offset of the tile's own elements."""
    divides = False
    """Whether it was asked which row an element is in."""

    def _division(self, kind: str, x: Affine, by: int) -> Value:
        self.divides = True
        return super()._division(kind, x, by)

    def result(self, i: Instruction, index: Index, mask: Value | None = None) -> Result:
        return self.part(*self.within.source(i), index, mask)

    def part(self, x: Instruction, place: Place, index: Index, mask: Value | None = None) -> Result:
        """The element of a part of the state, or of what computes a part."""
        if not self.within.is_state(x):
            return super().result(x, index, mask)
        if place in self.scalars:
            return self.scalars[place]
        if place in self.fixed:
            key = (place, index, mask)
            if key not in self.read:
                self.read[key] = self.load(self.fixed[place], index, mask)
            return self.read[key]
        if place not in self.tiles:
            raise Decline("it reads what it stores")
        shape = self.within.shape(place)
        if linear(index, strides_of(shape)) != self.home:
            raise Decline("an element needs others of the iteration before")
        return self.tiles[place]

    def is_to_write(self, i: Instruction, index: Index, mask: Value | None) -> bool:
        x, _ = self.within.source(i)
        return not self.within.is_state(x) and super().is_to_write(x, index, mask)


class _Writer(LoopWriter):
    """Writes the kernel of all tiles, or, without any, that of the rest."""

    def __init__(
        self, cpu: Lowering, loop: ElementLoop, tiles: Sequence[Place], steps: int | None
    ) -> None:
        """`steps`: how many iterations one call does, None for all."""
        self.cpu = cpu
        self.loop = loop
        self.tiles = tiles
        self.steps = steps
        self.is_rest = rest = not tiles
        self.pred: BufferSlice | None = None
        """Where to say whether the loop goes on."""
        self.params: dict[tuple[BufferSlice, DType], Value] = {}
        carried = loop.carried
        self.stacked = {p: x for p, x in carried.stacked.items() if (update_size(x) == 1) == rest}

    @property
    def stores_something(self) -> bool:
        """Whether anything but tiles is left behind."""
        return bool(self.stacked or self.loop.carried.scalars or self.pred is not None)

    def written(self, loops: Loops) -> kernels.Kernel:
        """The kernel."""
        loop, i = self.loop, self.loop.loop
        self.params.clear()
        grid = loops.grid if loops.inner else (1,)
        builder = KernelBuilder(i.name, grid)
        self.values = e = _Elements(builder, self.cpu.device)
        e.within = loop
        for x in loop.constants():
            e.sources[x] = self.memory(self.cpu.slice(x), x.shape, "in")
        emitter = BodyEmitter(Body(i.name, True, [], [], []), e, [])
        super().__init__(emitter, Nest(loops, 0, (), True, [], []))
        try:
            if self.is_rest:
                self._tile([], ZERO, 1)
            else:
                self.write()
        except UnsupportedError as error:
            raise Decline(str(error)) from None
        kernel = builder.finish()
        trips = min(loop.trips, self.steps or loop.trips)
        kernel.cost_ns = trips * max(len(self.tiles) and loops.block * loop.element_ns(), 1.0)
        used = {x for op in kernel.ops() for x in op.operands}
        kernel.params = [p for p in kernel.params if p.value in used]
        return kernel

    def thunk(self, kernel: kernels.Kernel) -> Kernel:
        """What runs it, and where its parameters are."""
        cpu, i = self.cpu, self.loop.loop
        places = {value: place for (place, _), value in self.params.items()}
        arguments = tuple([places[p.value] for p in kernel.params])
        writes = tuple([p.role != "in" for p in kernel.params])
        symbol = cpu.shared(kernel, i.name)
        return Kernel(i.name, symbol, arguments, writes, kernel.steps, kernel.cost_ns)

    # -- memory

    def source_of(self, place: Place, role: str) -> Source:
        """The memory of a part of the state."""
        return self.memory(self.cpu.slice(self.loop.loop, place), self.loop.shape(place), role)

    def memory(self, where: BufferSlice, shape: Shape, role: str) -> Source:
        """The parameter for a place, as an array of a shape."""
        key = (where, shape.dtype)
        if key not in self.params:
            name = f"p{len(self.params)}"
            builder = self.values.builder
            self.params[key] = builder.param(name, shape.dtype, shape.size, role)
        return Source(self.params[key], strides_of(shape))

    # -- code

    def _tile(self, outer: list[Affine], start: Affine, lanes: int) -> tuple[Value, ...]:
        """All iterations of one tile."""
        e, loop, b = self.values, self.loop, self.emitter.builder
        e.restart()
        e.tile = (lanes,) if lanes > 1 else ()
        position = start.plus(e.indices.lane(0, lanes, 1))
        digits = [*outer, *e.indices.digits(position, self.loops.inner)]
        if not self.is_rest:
            e.home = linear(digits, row_major(physical_sizes(loop.domain)))
        e.fixed = {p: self.source_of(p, "in") for p in loop.carried.fixed}
        scalars, role = loop.carried.scalars, "inout" if self.is_rest else "in"
        at = {p: index_of(loop.shape(p), digits) for p in self.tiles}
        targets = {p: self.source_of(p, "inout") for p in self.tiles}
        init = [b.load(self.source_of(p, role).buffer, b.index(0)) for p in scalars]
        last = self.last(dict(zip(scalars, init)))
        init += [e.load(targets[p], at[p]) for p in self.tiles]

        def check(*values: Value) -> Value:
            if last is not None:
                return b.compare("LT", values[last.number], last.end)
            self.bind(values)
            return self.scalar(loop.condition.root, ())

        def step(*values: Value) -> Sequence[Value]:
            self.bind(values)
            following = [self.scalar(*self.root(p)) for p in scalars]
            for p in self.tiles:
                value = e.part(*self.root(p), at[p])
                assert isinstance(value, Value)
                following.append(b.broadcast(value, e.tile))
            for p, update in self.stacked.items():
                self.store_part(p, update, digits)
            return following

        results = b.while_(init, check, step)
        for p, value in zip(self.tiles, results[len(scalars) :]):
            e.store(targets[p], at[p], value)
        if self.is_rest:
            self.store_scalars(results, last)
        return ()

    def last(self, scalars: dict[Place, Value]) -> LastStep | None:
        """Where one call leaves the loop, if not at its end."""
        if self.steps is None:
            return None
        last = last_step(self.emitter.builder, self.loop.loop, scalars, self.steps)
        if last is None:
            raise Decline("no counter says when it ends")
        return last

    def bind(self, values: Sequence[Value]) -> None:
        """What the state is, from here on."""
        e, scalars = self.values, self.loop.carried.scalars
        tile = e.tile
        e.restart()
        e.tile, e.read = tile, {}
        e.scalars = dict(zip(scalars, values))
        e.tiles = dict(zip(self.tiles, values[len(scalars) :]))

    def store_scalars(self, results: Sequence[Value], last: LastStep | None) -> None:
        """The scalars that a loop leaves behind, and whether it goes on."""
        b = self.emitter.builder
        for p, value in zip(self.loop.carried.scalars, results):
            b.store(self.source_of(p, "inout").buffer, b.index(0), value)
        if self.pred is not None and last is not None:
            goes_on = b.compare("LT", results[last.number], last.bound)
            place = b.param(f"p{len(self.params)}", PRED, 1, "inout")
            self.params[self.pred, PRED] = place
            b.store(place, b.index(0), goes_on)

    def root(self, place: Place) -> tuple[Instruction, Place]:
        x, at = self.loop.source(self.loop.body.root, place)
        return x, at

    def scalar(self, x: Instruction, place: Place) -> Value:
        """The one element of a value."""
        x, place = self.loop.source(x, place)
        if self.loop.is_state(x):
            return self.values.scalars[place]
        value = self.values.value(x, (ZERO,) * x.shape.rank)
        return self.emitter.builder.reshape(value, ()) if value.shape else value

    def store_part(self, place: Place, x: Instruction, digits: list[Affine]) -> None:
        """What an iteration writes of an array."""
        e, update = self.values, x.operands[1]
        place_shape = self.loop.shape(place)
        here = index_of(update.shape, digits if update_size(x) > 1 else [], place_shape)
        begin = clamped_starts(e, x.operands[2:], x.shape.dims, update.shape.dims)
        value = e.value(update, here)
        e.store(
            self.source_of(place, "inout"), tuple([a.plus(s) for a, s in zip(here, begin)]), value
        )


def row_major(sizes: Sequence[int]) -> list[int]:
    """The strides of dimensions, slowest first."""
    return [prod(sizes[k + 1 :]) for k in range(len(sizes))]


def index_of(s: Shape, digits: Sequence[Affine], layout: Shape | None = None) -> Index:
    """The index whose digits of sizes other than 1 are these, slowest first."""
    order = (layout or s).layout
    dims = order.minor_to_major[::-1] if order else range(s.rank)
    index, rest = [ZERO] * s.rank, list(digits)
    for d in dims:
        if s.dims[d] != 1:
            index[d] = rest.pop(0)
    return tuple(index)
