"""Cumulative sums, products, maxima: a reduce-window whose window is everything before (or after).

Written as a window each result folds all elements up to it; here every element is folded once.
Along the fastest dimension a tile is scanned in registers and the total so far added; along others
the lanes lie across, and what is carried is a tile. Totals of long sums are kept for blocks, as in
`blocked_fold.py`, and what stands before a block is added to what is carried within it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from hloom.codegen.affine import ZERO, Affine
from hloom.codegen.blocked_fold import (
    RUN,
    block_sizes,
    fold_kind,
    fold_kinds,
    restart_of,
)
from hloom.codegen.combiner import apply
from hloom.codegen.elements_fold import folds_own_types
from hloom.codegen.tile import Body, BodyEmitter, Emitted, KernelEmitter, compute_bytes
from hloom.codegen.work import element_work
from hloom.device.costs import Costs
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value
from hloom.types.dtype import F32, F64

# Vectors of the machine in a tile that lies across the scanned dimension.
ACROSS_VECTORS = 4
# Totals of tiles that are carried in a row, before they are joined to those before them.
ALONG_RUN = 32

# So much work for an element is shared by lanes across rows, each of which reads and writes memory
# of its own: cumulative log-sum-exp of 100,000 x 2 takes 0.02 of the time, a maximum and a sum of
# 4,096 x 1,024 would take 4.7.
DEAR_WORK = 10.0

Totals = Sequence[Value] | None


def cumulative_dimension(i: Instruction) -> tuple[int, bool] | None:
    """The dimension that a reduce-window accumulates along, and whether from its end."""
    if i.opcode != "reduce-window" or 0 in i.operands[0].shape.dims or not folds_own_types(i):
        return None
    dims = i.attrs.window.dimensions
    walked = [d for d, w in enumerate(dims) if not w.is_trivial]
    if len(walked) != 1:
        return None
    [d] = walked
    w, size = dims[d], i.operands[0].shape.dims[d]
    if w.stride != 1 or w.window_dilation != 1 or w.base_dilation != 1 or w.size < size:
        return None
    if (w.padding_low, w.padding_high) == (w.size - 1, 0):
        return d, False
    if (w.padding_low, w.padding_high) == (0, w.size - 1):
        return d, True
    return None


def is_cumulative(body: Body) -> bool:
    """Whether a body is one reduce-window that `cumulative_dimension` knows."""
    return len(body.instructions) == 1 and cumulative_dimension(body.roots[0][0]) is not None


def cumulative_kernel(body: Body, device: Device) -> Emitted:
    """The kernel of a body that is cumulative: a step for each row, or tile of rows."""
    i = body.roots[0][0]
    walk = _Walk.of(i, device)
    emitter = KernelEmitter(body, (prod(walk.outer), walk.tiles), device)
    writer = _Cumulative(emitter, i, walk)
    indices, grid = emitter.elements.indices, emitter.builder.grid_indices
    row = indices.scalar(grid[0], 0, prod(walk.outer) - 1)
    outer = indices.digits(row, walk.outer)
    if walk.along:
        writer.along(outer)
    else:
        writer.across(outer, indices.scalar(grid[1], 0, walk.tiles - 1), walk.inner)
    return emitter.finish()


def write_cumulative(emitter: BodyEmitter, device: Device) -> None:
    """All of a body that is cumulative, as loops within the current step."""
    i = emitter.body.roots[0][0]
    walk, e = _Walk.of(i, device), emitter.elements
    writer = _Cumulative(emitter, i, walk)

    def row(k: Affine) -> Sequence[Value]:
        outer = e.indices.digits(k, walk.outer)
        if walk.along:
            writer.along(outer)
            return ()

        def tile(number: Affine) -> Sequence[Value]:
            writer.across(outer, number, walk.inner)
            return ()

        return e.loop(walk.tiles, (), tile)

    e.loop(prod(walk.outer), (), row)


def cumulative_work(i: Instruction, costs: Costs) -> float:
    """Work for an element: it is folded once, and stored."""
    if fold_kinds(i.called[0]) is not None:
        return 2.0
    return 2.0 + sum(element_work(x, costs) for x in i.called[0].instructions)


@dataclass(frozen=True)
class _Walk:
    """How the elements are walked: the dimensions before the scanned one `d`, how many elements
    follow it, in tiles of how many lanes; along it if it is the fastest. Where nothing follows it
    and what folds is dear, lanes lie across the rows before it: none are outer."""

    d: int
    outer: tuple[int, ...]
    inner: int
    along: bool
    lanes: int
    tiles: int
    by_rows: bool = False

    @staticmethod
    def of(i: Instruction, device: Device) -> _Walk:
        cumulative = cumulative_dimension(i)
        assert cumulative is not None
        d, _ = cumulative
        sizes = i.operands[0].shape.dims
        inner = prod(sizes[d + 1 :])
        count = len(i.operands) // 2
        width = max([compute_bytes(x.shape.dtype) for x in i.operands[:count]])
        lanes = device.compute.vector_bytes // width
        along = inner == 1 and fold_kind(i.called[0]) is not None and count == 1
        if along:
            return _Walk(d, sizes[:d], inner, along, lanes, 1)
        outer = sizes[:d]
        by_rows = inner == 1 and cumulative_work(i, device.costs) >= DEAR_WORK
        if by_rows:
            outer, inner = (), prod(outer)
        lanes = min(lanes * ACROSS_VECTORS, inner)
        return _Walk(d, outer, inner, along, lanes, -(-inner // lanes), by_rows)


class _Cumulative:
    """Writes one row, or one tile of rows."""

    def __init__(self, emitter: BodyEmitter, i: Instruction, walk: _Walk) -> None:
        cumulative = cumulative_dimension(i)
        assert cumulative is not None
        self.emitter = emitter
        self.i = i
        self.lanes, self.by_rows = walk.lanes, walk.by_rows
        self.d, self.reverse = cumulative
        count = len(i.operands) // 2
        self.inputs, self.inits = i.operands[:count], i.operands[count:]
        self.sizes = self.inputs[0].shape.dims
        self.rest = self.sizes[self.d + 1 :]
        self.length = self.sizes[self.d]
        self.kinds = fold_kinds(i.called[0])

    def across(self, outer: list[Affine], number: Affine, inner: int) -> None:
        """Tile `number` of the lanes across the dimension; the last may be smaller."""
        e = self.emitter.elements
        e.one_tile(number, self.lanes, inner, lambda start, n: self._column(outer, start, n))

    def _column(self, outer: list[Affine], start: Affine, lanes: int) -> None:
        e, b, i = self.emitter.elements, self.emitter.builder, self.i
        e.tile = (lanes,) if lanes > 1 else ()
        shape = e.tile
        before, behind = outer, [ZERO] * len(self.rest)
        number = start.plus(e.indices.lane(0, lanes, 1))
        if not self.by_rows:
            behind = e.indices.digits(number, self.rest)
        else:
            before = e.indices.digits(number, self.sizes[: self.d])
        carried = [b.broadcast(e.value(x, ()), shape) for x in self.inits]

        def folded(total: Sequence[Value], elements: Sequence[Value]) -> list[Value]:
            if self.kinds is not None:
                return [b.binary(k, x, y) for k, x, y in zip(self.kinds, total, elements)]
            return [b.broadcast(x, shape) for x in apply(e, i.called[0], [*total, *elements])]

        def step(k: Affine, base: Totals, *values: Value) -> Sequence[Value]:
            if self.reverse:
                k = k.times(-1).plus(self.length - 1)
            at = (*before, k, *behind)
            elements = [b.broadcast(e.value(x, at), shape) for x in self.inputs]
            carried = folded(values, elements)
            new = carried if base is None else folded(folded(base, values), elements)
            for target, x in zip(self.emitter.outputs, new):
                e.store(target, at, x)
            return carried

        self._walk(self.length, carried, step)

    def _walk(
        self,
        extent: int,
        carried: Sequence[Value],
        body: Callable[..., Sequence[Value]],
        step: int = 1,
        run: int = RUN,
    ) -> Sequence[Value]:
        """A loop that carries totals, in blocks: `body(k, base, *totals)` gets what was folded
        before the block it stands in, and folds on within the block."""
        e, b = self.emitter.elements, self.emitter.builder
        restart = restart_of(e, self.kinds, carried)
        count = extent // step
        sizes = block_sizes(count, run=run) if restart is not None else []

        def level(
            number: int, first: Value | int, end: Value | int, base: Totals, values: Sequence[Value]
        ) -> Sequence[Value]:
            size = sizes[number] if number >= 0 else 1

            def write(k: Value, *now: Value) -> Sequence[Value]:
                at = e.indices.scalar(k, 0, (count - 1) // size * size * step, size * step)
                if number < 0:
                    return body(at, base, *now)
                assert restart is not None
                last = b.binary("add", k, b.index(size * step))
                if extent % (size * step):
                    last = b.binary("minimum", last, b.index(extent))
                before = now if base is None else restart.join(base, now)
                return restart.join(now, level(number - 1, k, last, before, restart.begin()))

            return e.for_(first, end, size * step, values, write)

        if not sizes:
            return e.loop(extent, carried, lambda k, *v: body(k, None, *v), step=step)
        return level(len(sizes) - 1, 0, extent, None, carried)

    def along(self, outer: list[Affine]) -> None:
        """Lanes along the dimension, which is the fastest. Totals of f32 are carried in f64: one
        scalar addition and two conversions for each tile, which hide behind its scan."""
        e, b, i = self.emitter.elements, self.emitter.builder, self.i
        kind = fold_kind(i.called[0])
        assert kind is not None
        [target] = self.emitter.outputs
        tail = (ZERO,) * len(self.rest)

        def tile(start: Affine, lanes: int, base: Totals, carry: Value) -> Value:
            before = b.convert(carry if base is None else b.binary(kind, base[0], carry), own)
            e.tile = (lanes,) if lanes > 1 else ()
            at = (*outer, start.plus(e.indices.lane(0, lanes, 1)), *tail)
            elements = b.broadcast(e.value(self.inputs[0], at), e.tile)
            if lanes == 1:
                e.store(target, at, b.binary(kind, before, elements))
                return b.binary(kind, carry, b.convert(elements, wide))
            scanned = b.scan(elements, 0, kind, self.reverse)
            edge = b.slice(scanned, 0, 0 if self.reverse else lanes - 1, 1)
            total = b.reshape(edge, ())
            e.store(target, at, b.binary(kind, b.broadcast(before, e.tile), scanned))
            return b.binary(kind, carry, b.convert(total, wide))

        carry = e.value(self.inits[0], ())
        own = carry.dtype
        wide = F64 if own is F32 and kind == "add" else own
        carry = b.convert(carry, wide)
        lanes, length = self.lanes, self.length
        full = length - length % lanes

        def step(k: Affine, base: Totals, *values: Value) -> Sequence[Value]:
            start = k.times(-1).plus(length - lanes) if self.reverse else k
            return [tile(start, lanes, base, values[0])]

        if wide is not own:
            [carry] = e.loop(full, [carry], lambda k, *v: step(k, None, *v), step=lanes)
        else:
            [carry] = self._walk(full, [carry], step, lanes, ALONG_RUN)
        done, rest = full, length - full
        while rest:
            lanes = 1 << (rest.bit_length() - 1)
            start = Affine(length - done - lanes if self.reverse else done)
            carry = tile(start, lanes, None, carry)
            done += lanes
            rest -= lanes
