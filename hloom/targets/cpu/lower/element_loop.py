"""Loops that compute element k of what they carry from element k alone.

What of their state is what, and whether they gain by doing all iterations of a tile of elements at
once (interchange.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from hloom.analysis.trip_count import trip_count
from hloom.codegen.elements import is_simple
from hloom.codegen.walk import Loops
from hloom.codegen.work import element_work
from hloom.device.device import Device
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import PLUMBING, RESHAPES
from hloom.targets.cpu.lower.carried_rows import ROW_VECTORS
from hloom.targets.cpu.lower.loop_steps import (
    LEAST_STEPS,
    LONG_NS,
    Decline,
    fits_register,
    is_huge,
)
from hloom.targets.cpu.lowering import Lowering
from hloom.types.shape import Shape
from hloom.types.sizes import data_bytes

Place = tuple[int, ...]

INSIDE = opcodes(
    PLUMBING,
    RESHAPES,
    also=(
        *("fusion", "copy", "broadcast", "iota", "slice", "gather"),
        *("dynamic-slice", "dynamic-update-slice"),
    ),
    without=("dynamic-reshape",),
)
"""The opcodes of bodies, beside what is elementwise; what folds or moves elements is for other
loops."""
NO_WORK = opcodes(PLUMBING, RESHAPES, also=("fusion", "copy"))
LEAST_TRIPS = 3
"""Loops of fewer iterations are left as they are."""
CHEAP_WORK = 6.0
"""More operations than this for an element and iteration hide what one core reads and writes."""
CARRIED_VECTORS = 16
MOST_VECTORS = 8
"""A tile carries so many vectors in all, and of each array: an iteration waits for the one before,
and other vectors take its turn meanwhile."""
MOST_REPEATED = 0.5
"""Part of the work that may be done again for each row."""
STEPS_PER_UNIT = 4
"""Parts of the elements for each core, at least."""


@dataclass
class Carried:
    """What becomes of the parts of a loop's state."""

    scalars: list[Place] = field(default_factory=list)
    tiles: list[Place] = field(default_factory=list)
    """Arrays of the loop's elements."""
    fixed: list[Place] = field(default_factory=list)
    """What no iteration changes."""
    stacked: dict[Place, Instruction] = field(default_factory=dict)
    """Arrays of which each iteration writes one part, and nobody reads any: the update."""


class ElementLoop:
    """A while loop whose elements are independent: its elements, its state, its cost."""

    def __init__(self, cpu: Lowering, i: Instruction) -> None:
        self.cpu = cpu
        self.loop = i
        self.condition, self.body = i.called
        self.device: Device = cpu.device
        self.links: dict[Instruction, Instruction] = {}
        """The operand that a parameter of a fusion stands for."""
        self.carried = Carried()
        self.domain: Shape = i.shape
        self.trips = 0

    @staticmethod
    def of(cpu: Lowering, i: Instruction) -> ElementLoop:
        """Of a while loop; `Decline` if its elements need one another."""
        loop = ElementLoop(cpu, i)
        trips = trip_count(i).count
        if trips is None or trips < LEAST_TRIPS:
            raise Decline("it is not known how often it runs" if trips is None else "it is short")
        if is_huge(i.called):
            raise Decline("it has too many instructions for one function")
        loop.trips = trips
        for c in i.called:
            loop.link(c)
        loop.sort_state()
        return loop

    def link(self, c: Computation) -> None:
        """Look at what a computation does, and through its fusions."""
        for x in c.instructions:
            if not (is_simple(x) or x.opcode in INSIDE) or changes_width(x):
                raise Decline(f"%{x.name} is not computed element by element")
            if x.opcode == "fusion":
                [inner] = x.called
                if len(inner.callers) != 1:
                    raise Decline(f"%{x.name} shares its computation")
                for p in inner.parameters:
                    self.links[p] = x.operands[p.attrs.number]
                self.link(inner)

    # -- values

    def source(self, i: Instruction, place: Place = ()) -> tuple[Instruction, Place]:
        """Where a value is computed: through tuples, copies and fusions."""
        while True:
            if i.opcode == "get-tuple-element":
                i, place = i.operands[0], (i.attrs.index, *place)
            elif i.opcode == "tuple" and place:
                i, place = i.operands[place[0]], place[1:]
            elif i.opcode == "fusion":
                i = i.called[0].root
            elif i in self.links:
                i = self.links[i]
            elif i.opcode == "copy":
                i = i.operands[0]
            else:
                return i, place

    def is_state(self, i: Instruction) -> bool:
        """Whether an instruction is the state at the begin of an iteration."""
        return i is self.body.parameters[0] or i is self.condition.parameters[0]

    def constants(self) -> Iterator[Instruction]:
        """Arrays that stand in memory."""
        for c in (self.condition, self.body):
            for x in c.instructions:
                if x.opcode == "constant" and x.shape.is_array and x.shape.size > 1:
                    if x.shape.dtype.bits < 8:
                        raise Decline(f"%{x.name} is packed")
                    yield x

    def leaves(self) -> Iterator[tuple[Place, Shape]]:
        for place, leaf in self.loop.shape.subshapes():
            if leaf.is_tuple:
                continue
            if not leaf.is_array or leaf.dynamic or leaf.dtype.bits < 8:
                raise Decline("it carries what is no plain array")
            yield place, leaf

    def sort_state(self) -> None:
        """Say of each part of the state what it is."""
        [state], own = self.body.parameters, self.carried
        shapes = dict(self.leaves())
        for place, shape in shapes.items():
            where = self.cpu.slice(self.loop, place)
            x, at = self.source(self.body.root, place)
            if (x, at) == (state, place):
                own.fixed.append(place)
            elif fits_register(shape):
                own.scalars.append(place)
            elif x.opcode == "dynamic-update-slice" and self.source(x.operands[0]) == (
                state,
                place,
            ):
                own.stacked[place] = x
            else:
                own.tiles.append(place)
            for y in (self.loop.operands[0], self.body.root):
                if self.cpu.slice(y, place) != where:
                    raise Decline("a carried array is not where it began")
        if not own.tiles:
            raise Decline("it carries no array from iteration to iteration")
        self.domain = shapes[own.tiles[0]]
        sizes = physical_sizes(self.domain)
        for place in own.tiles:
            if physical_sizes(shapes[place]) != sizes:
                raise Decline("its arrays are of several sizes")
            if shapes[place].dtype.bits < 32 and shapes[place].dtype.is_floating:
                raise Decline("it rounds what it carries")
        for place, x in own.stacked.items():
            update = x.operands[1].shape
            if update.size != 1 and physical_sizes(update, shapes[place]) != sizes:
                raise Decline("it stores rows of another size")

    # -- sizes

    def work(self) -> float:
        """Cheap operations for each element and iteration."""
        size, total = self.domain.size, 0.0
        for x in self.instructions(self.body):
            if x.shape.is_array and x.shape.size >= size:
                total += element_work(x, self.device.costs)
        return total

    def work_of_others(self) -> tuple[float, float]:
        """Operations of scalars, which every tile repeats, and those for each element of arrays
        that are smaller than the loop's, which are repeated along what they lack."""
        alone = shared = 0.0
        for x in self.instructions(self.body):
            if x.shape.is_array and x.shape.size < self.domain.size and x.opcode not in NO_WORK:
                own = element_work(x, self.device.costs)
                alone += own if x.shape.size == 1 else 0.0
                shared += own if x.shape.size > 1 else 0.0
        return alone, shared

    def instructions(self, c: Computation) -> Iterator[Instruction]:
        for x in c.instructions:
            yield x
            if x.opcode == "fusion":
                yield from self.instructions(x.called[0])

    @property
    def lanes(self) -> int:
        """The elements of a tile: enough of them that iterations need not wait."""
        compute, sizes = self.device.compute, [self.shape(p).dtype.size_bytes for p in self.tiles]
        vectors = min(MOST_VECTORS, max(1, CARRIED_VECTORS // len(sizes)))
        return max(1, compute.vector_bytes // min(max(sizes), 8)) * vectors

    def walk(self, inner: int) -> Loops:
        """Tiles and blocks of the elements, along so many dimensions."""
        sizes, device = physical_sizes(self.domain), self.device
        outer, sizes = sizes[: len(sizes) - inner], sizes[len(sizes) - inner :]
        length = prod(sizes)
        lanes = min(self.lanes, length)
        share = -(-self.domain.size // (STEPS_PER_UNIT * device.compute.units))
        block = min(share, device.costs.chunk_ns / (self.element_ns() * self.trips))
        return Loops(outer, (), sizes, lanes, min(max(1, int(block) // lanes) * lanes, length))

    def require_gain(self) -> None:
        """Decline what is as fast without."""
        own, device, work = self.carried, self.device, self.work()
        row = ROW_VECTORS * device.compute.vector_bytes
        if max(data_bytes(self.shape(p)) for p in own.tiles) <= row:
            raise Decline("its rows stay in registers")
        alone, shared = self.work_of_others()
        if alone > work * self.lanes * 4 / device.compute.vector_bytes:
            raise Decline("it has more to do once than for each tile")
        if shared > work * MOST_REPEATED:
            raise Decline("each row would compute what all rows share")
        size, body = self.domain.size, self.body.instructions
        is_moved = any(x.opcode == "copy" and x.shape.size == size for x in body)
        if device.compute.units > 1 or is_moved:
            return
        is_stream = any(update_size(x) > 1 for x in own.stacked.values()) or any(
            self.shape(p).size > size for p in own.fixed
        )
        if is_stream or work > CHEAP_WORK:
            raise Decline("one core reads and writes its rows as fast")

    def shape(self, place: Place) -> Shape:
        """That of a part of the state."""
        return self.loop.shape.subshape(place)

    @property
    def tiles(self) -> list[Place]:
        return self.carried.tiles

    def element_ns(self) -> float:
        """One iteration of one element."""
        return self.device.costs.operation_ns * max(self.work(), 1.0)

    def steps_at_once(self) -> int | None:
        """After how many iterations the program should look whether to stop; None where all of
        them together are short."""
        one_ns = self.element_ns() * self.domain.size / self.device.compute.units
        steps = max(LEAST_STEPS, int(LONG_NS / one_ns))
        return None if self.trips <= steps else steps


def physical_sizes(s: Shape, layout: Shape | None = None) -> tuple[int, ...]:
    """The sizes of dimensions that are not 1, slowest first."""
    order = (layout or s).layout
    dims = order.minor_to_major[::-1] if order else range(s.rank)
    return tuple([s.dims[d] for d in dims if s.dims[d] != 1])


def changes_width(x: Instruction) -> bool:
    """Whether bytes are seen as elements of another size."""
    return x.opcode == "bitcast" and x.shape.dtype.bits != x.operands[0].shape.dtype.bits


def update_size(update: Instruction) -> int:
    return update.operands[1].shape.size
