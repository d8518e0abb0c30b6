"""Kernels that walk the elements of their roots: grid, loops, lanes.

Outer dimensions go to the grid, then comes a loop, then lanes along the fastest dimension.
Reductions that the roots need are loops of their own, written where their row begins. A sequence
is several such nests in one step, for the many small values of a loop's body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from hloom.codegen import (
    elements_concatenate,
    elements_data,
    elements_fold,
    elements_pad,
    elements_product,
    elements_window,
)
from hloom.codegen.affine import ZERO, Affine
from hloom.codegen.elements import Elements, Index, Source
from hloom.codegen.elements_data import clamped_starts, reshaped
from hloom.codegen.kept import KeptElements, Passes
from hloom.codegen.nest import Nest, in_row_order, kept_passes, one_nest
from hloom.codegen.tile import (
    Body,
    BodyEmitter,
    Emitted,
    KernelEmitter,
    ShapeIndex,
    is_update,
)
from hloom.codegen.walk import Loops, domain
from hloom.codegen.work import body_work
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value

# The rooms whose rules `Elements` uses; importing them registers the rules.
RULES = (
    elements_concatenate,
    elements_data,
    elements_fold,
    elements_pad,
    elements_product,
    elements_window,
)


def loop_kernel(body: Body, device: Device) -> Emitted:
    """A kernel that computes the roots element by element."""
    work = body_work(body.instructions, [r for r, _ in body.roots], device.costs)
    nest = one_nest(body, device, work)
    if nest is None:
        return sequence_kernel(body, device)
    kept = kept_passes(body, nest, device)
    if kept is None:
        nest = in_row_order(body, nest, device, work)
    emitter = KernelEmitter(
        body, nest.loops.grid, device, elements=KeptElements if kept else Elements
    )
    LoopWriter(emitter, nest, kept).write()
    emitted = emitter.finish()
    if nest.loops.blocks > 1 and not nest.loops.outer:
        emitted = replace(emitted, step_elements=nest.loops.block)
    return emitted


def sequence_kernel(body: Body, device: Device) -> Emitted:
    """One step that computes root after root."""
    emitter = KernelEmitter(body, (1,), device)
    work = body_work(body.instructions, [r for r, _ in body.roots], device.costs)
    write_sequence(emitter, device, work)
    return emitter.finish()


def write_sequence(emitter: BodyEmitter, device: Device, work: float) -> None:
    """Root after root, those of one size together; what fits in one tile is stored at the very end,
    so that it may overwrite what the others read."""
    late: list[Callable[[], None]] = []
    for together in nests_of(emitter.body.roots):
        first = together[0]
        sizes, order = domain(*emitter.body.roots[first])
        loops = Loops.of(emitter.body, sizes, device, work)
        writer = LoopWriter(emitter, Nest(loops, first, order, False, together, []))
        if is_single_tile(prod(sizes)):
            writer.late = late
        writer.write_here()
    for store in late:
        store()


def nests_of(roots: Sequence[tuple[Instruction, ShapeIndex]]) -> list[list[int]]:
    """Which roots of a sequence are computed by one nest of loops: what several need is computed
    once. None of them overwrites what another reads elsewhere (targets/cpu/share.py)."""
    nests: dict[tuple[object, ...], list[int]] = {}
    for k, root in enumerate(roots):
        sizes, order = domain(*root)
        solid = tuple([n for n in sizes if n != 1])
        in_order = tuple([d for d, n in zip(order, sizes) if n != 1])
        alone = is_single_tile(prod(sizes)) or in_order != tuple(sorted(in_order))
        nests.setdefault((k,) if alone else ("of", solid), []).append(k)
    return list(nests.values())


# Roots of sequences up to this size are computed before anything is stored.
SINGLE_TILE = 16


def is_single_tile(elements: int) -> bool:
    """Whether a root of a sequence is stored after all roots are computed."""
    return elements <= SINGLE_TILE


LEAST_PEELED = 4
"""Rows of fewer tiles are not taken apart."""


def chooses_at_ends(x: Instruction, lanes: int) -> bool:
    """Whether rows of a concatenation change from one array to another within so many lanes of an
    end, and nowhere else."""
    if x.opcode != "concatenate" or x.attrs.dimensions != (x.shape.rank - 1,):
        return False
    return sum(y.shape.dims[-1] > lanes for y in x.operands) == 1


class LoopWriter:
    """Writes one nest of loops."""

    def __init__(self, emitter: BodyEmitter, nest: Nest, kept: Passes | None = None) -> None:
        self.emitter = emitter
        self.kept = kept
        self.loops = nest.loops
        self.first = nest.first
        self.order = nest.order
        self.flat = nest.flat
        self.elements = nest.elements
        self.rows = nest.rows
        self.late: list[Callable[[], None]] | None = None

    def write(self) -> None:
        """All steps, on the grid."""
        loops, e = self.loops, self.emitter.elements
        grid = self.emitter.builder.grid_indices
        if 0 in loops.grid or loops.length == 0 or 0 in loops.middle:
            return
        if loops.blocks_first:
            grid = grid[::-1]
        row = e.indices.scalar(grid[0], 0, prod(loops.outer) - 1)
        outer = e.indices.digits(row, loops.outer)
        if loops.blocks > 1:
            self._block(outer, grid[1])
        else:
            self._rows(outer)

    def write_here(self) -> None:
        """All steps, as loops within the current one."""
        loops, e = self.loops, self.emitter.elements
        if 0 in loops.outer or loops.length == 0 or 0 in loops.middle:
            return
        loops.block = loops.length
        if self.late is not None:
            loops.lanes = min(loops.lanes, loops.length)

        def one(k: Affine) -> Sequence[Value]:
            self._rows(e.indices.digits(k, loops.outer))
            return ()

        if self.late is None:
            e.loop(prod(loops.outer), (), one)
            return
        # What is stored late must be known outside of any loop: everything is written out.
        for k in range(prod(loops.outer)):
            one(Affine(k))

    def write_step(self, outer: list[Affine]) -> None:
        """One step of the outer dimensions, which somebody else walks."""
        if self.loops.length and 0 not in self.loops.middle:
            self._rows(outer)

    def _rows(self, outer: list[Affine]) -> None:
        """All elements of one step of the outer dimensions."""
        e, loops = self.emitter.elements, self.loops
        if self.kept is not None:
            assert isinstance(e, KeptElements)
            e.tile = ()
            e.begin_row(self.kept, _number(outer, loops.outer))
            e.fold_all(self.kept)
        stores = self._row_stores(outer)
        if not loops.middle:
            self._row(outer)
        elif self.late is None:
            e.loop(
                prod(loops.middle),
                (),
                lambda k: self._row([*outer, *e.indices.digits(k, loops.middle)]),
            )
        else:
            for k in range(prod(loops.middle)):
                self._row([*outer, *e.indices.digits(Affine(k), loops.middle)])
        e.tile = ()
        for target, where, value in stores:
            e.store(target, where, value)

    def _row_stores(self, outer: list[Affine]) -> list[tuple[Source, Index, Value]]:
        """What rows have one of; computed first, since elements may overwrite what they read."""
        e, loops = self.emitter.elements, self.loops
        e.tile = ()
        stores = []
        for k in self.rows:
            root, part = self.emitter.body.roots[k]
            where, value = self._root(root, part, tuple(outer), loops.outer)
            stores.append((self.emitter.outputs[k], where, value))
        return stores

    def _row(self, outer: list[Affine]) -> tuple[Value, ...]:
        """All lanes of one row."""
        e, loops = self.emitter.elements, self.loops
        length, lanes = loops.length, loops.lanes
        full = length - length % lanes
        if self.late is None:
            for lower, upper in self._stretches(full):
                e.loop(upper, (), lambda k: self._tile(outer, k, lanes), step=lanes, lower=lower)
        else:
            for k in range(0, full, lanes):
                self._tile(outer, Affine(k), lanes)
        for start, count in loops.rests(full):
            self._tile(outer, Affine(start), count)
        return ()

    def _stretches(self, full: int) -> list[tuple[int, int]]:
        """Parts of a row, from where to where. Where lanes choose among several arrays, as a row
        that is turned round does at its ends, the first tile and the last are written by
        themselves: in between it is known which array is read."""
        loops = self.loops
        lanes = loops.lanes
        if full < LEAST_PEELED * lanes:
            return [(0, full)]
        if not any(chooses_at_ends(x, lanes) for x in self.emitter.body.instructions):
            return [(0, full)]
        last = full if full < loops.length else full - lanes
        return [(a, b) for a, b in ((0, lanes), (lanes, last), (last, full)) if a < b]

    def _block(self, outer: list[Affine], number: Value) -> None:
        """The lanes of one block of a long row."""
        e, loops, b = self.emitter.elements, self.loops, self.emitter.builder
        length, lanes, block = loops.length, loops.lanes, loops.block
        full = length - length % lanes
        start = b.binary("multiply", number, b.index(block))
        end = b.binary("add", start, b.index(block))
        # Only where the last block is full does no block reach past the row.
        upper = end if length % block == 0 else b.binary("minimum", end, b.index(full))

        def body(k: Value) -> tuple[Value, ...]:
            return self._tile(outer, e.indices.scalar(k, 0, full - lanes, lanes), lanes)

        e.for_(start, upper, lanes, (), body)
        if full < length:
            lower = b.binary("maximum", start, b.index(full))
            last = b.binary("minimum", end, b.index(length))

            def rests(k: Value) -> tuple[Value, ...]:
                for first, count in loops.rests(full):
                    self._tile(outer, Affine(first), count)
                return ()

            e.for_(lower, last, length - full, (), rests)

    def _tile(self, outer: list[Affine], start: Affine, lanes: int) -> tuple[Value, ...]:
        """Compute and store the roots for one tile of lanes."""
        e, loops = self.emitter.elements, self.loops
        e.tile = (lanes,) if lanes > 1 else ()
        position = start.plus(e.indices.lane(0, lanes, 1))
        physical = [*outer, *e.indices.digits(position, loops.inner)]
        body = self.emitter.body
        first, part = body.roots[self.first]
        if self.flat:
            _, order = domain(first, part)
            sizes = [first.shape.dims[d] for d in order]
            physical = e.indices.digits(position, sizes)
        logical = [ZERO] * len(self.order)
        for x, d in zip(physical, self.order):
            logical[d] = x
        at = tuple(logical)
        written = (first.operands[1].shape if is_update(first) else first.shape.subshape(part)).dims
        stores: list[tuple[Source, Index, Value]] = []
        for k in self.elements:
            root, index = body.roots[k]
            where, value = self._root(root, index, at, written)
            if self.emitter.offsets:
                where = tuple([x.plus(n) for x, n in zip(where, self.emitter.offsets[k])])
            stores.append((self.emitter.outputs[k], where, value))
        if self.late is not None:
            tile = e.tile
            self.late.append(lambda: self._store_late(tile, stores))
            return ()
        self._store_tile(stores)
        return ()

    def _store_late(self, tile: tuple[int, ...], stores: list[tuple[Source, Index, Value]]) -> None:
        self.emitter.elements.tile = tile
        self._store_tile(stores)

    def _store_tile(self, stores: list[tuple[Source, Index, Value]]) -> None:
        """The results of one tile; of operands that take turns in a row, all at once."""
        e = self.emitter.elements
        if self.emitter.takes_turns and e.tile:
            elements_concatenate.store_in_turn(e, stores)
            return
        for target, where, value in stores:
            e.store(target, where, value)

    def _root(
        self, root: Instruction, part: ShapeIndex, at: Index, written: tuple[int, ...]
    ) -> tuple[Index, Value]:
        """Where a root writes its element, and the element."""
        e = self.emitter.elements
        if is_update(root):
            update = root.operands[1]
            here = _as_index(e, at, written, update.shape.dims)
            begin = clamped_starts(e, root.operands[2:], root.shape.dims, update.shape.dims)
            value = e.value(update, here)
            return tuple([x.plus(s) for x, s in zip(here, begin)]), value
        here = _as_index(e, at, written, root.shape.subshape(part).dims)
        result = e.result(root, here)
        return here, result[part[0]] if isinstance(result, tuple) else result


def _as_index(e: Elements, at: Index, sizes: tuple[int, ...], to: tuple[int, ...]) -> Index:
    return at if sizes == to else reshaped(e, at, sizes, to)


def _number(digits: Sequence[Affine], sizes: Sequence[int]) -> Affine:
    """The number of which these are the digits."""
    number = ZERO
    for digit, size in zip(digits, sizes):
        number = number.times(size).plus(digit)
    return number
