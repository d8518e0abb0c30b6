"""Sums of which data says what is added where, kept in scratch while they grow.

What meets where is known at run time only. Where many numbers meet in few places, a step sums into
a scratch instead of its output, in one of two ways. Sums of a wider type: no error grows before
there are 2^29 terms. Longer rows, which would take twice the vectors, and types that have no wider
one: as many updates as make 32 terms in each place
are a block, whose sums are added to those
of the blocks before it (`blocked_fold.py`); where all of a block meets in one place, it is a long
one, and still not longer than the whole.

Where rows are single numbers and neighbours meet in one place, as sorted ones do, each waits until
the one before is stored. So neighbours go to copies of the places, which are joined in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from hloom.codegen.affine import ZERO, Affine, constant
from hloom.codegen.blocked_fold import block_sizes, fold_kind, rounds
from hloom.codegen.elements import Elements, Index, Source
from hloom.codegen.fold import nest
from hloom.codegen.gemm_tiling import share_bytes
from hloom.device.device import Device
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import SCRATCH_BYTES, Value
from hloom.types.dtype import F32, F64, DType

# Fewer terms in a place lose little, and filling the scratch would count.
LEAST_TERMS = 16
# What a block costs is one addition for so many.
BLOCK_TERMS = 32
# The scratch should leave room in the second-level cache: a share of it.
MOST_SHARE = 1 / 4
# Longer rows cost more in a wider type than in blocks, in parts of a vector of it.
WIDE_ROW = 2
# As many neighbours as a processor has at work while one is stored and read again.
COPIES = 4


class Sums(NamedTuple):
    """How sums are kept: in which type, of how many elements of a row at a time, how many updates
    are a block (0: all), and in how many copies."""

    of: DType
    lanes: int
    block: int = 0
    copies: int = 1


def sums_of(
    i: Instruction, count: int, batch: Sequence[int], lanes: int, device: Device
) -> Sums | None:
    """How the sums of a scatter whose windows stand still are kept, of up to so many elements of a
    row at a time; None: in its output."""
    a, of = i.attrs, i.operands[0].shape.dtype
    kind = fold_kind(i.called[0]) or ""
    if count > 1 or a.unique_indices or not kind:
        return None
    dims, update = i.operands[0].shape.dims, i.operands[-1].shape.dims
    places = prod(dims[d] for d in a.inserted_window_dims)
    terms = prod(update[d] for d in batch)
    row = update[a.update_window_dims[-1]] if a.update_window_dims else 1
    most = share_bytes(device, MOST_SHARE)
    if places * F64.size_bytes > most:
        return None
    copies = COPIES if COPIES * places * F64.size_bytes <= min(most, SCRATCH_BYTES) else 1
    if not rounds(kind, of):
        is_worth_it = copies > 1 and terms >= LEAST_TERMS * places and lanes * row == 1
        if not is_worth_it or not _is_joined(kind, of):
            return None
        return Sums(of, 1, copies=copies)
    if of.is_floating and of.bits < 32:
        return _sums_that_fit(F32, lanes, row, places, device) if terms >= places else None
    if terms < LEAST_TERMS * places:
        return None
    is_short = row * F64.size_bytes * WIDE_ROW <= device.compute.vector_bytes
    if of is F32 and (a.indices_are_sorted or is_short):
        sums = _sums_that_fit(F64, lanes, row, places, device)
        return sums if sums is None or row > 1 else sums._replace(copies=copies)
    block = BLOCK_TERMS * places
    levels = len(block_sizes(terms, run=block))
    fits = levels * places * min(row, device.compute.vector_bytes) * of.size_bytes <= most
    return Sums(of, lanes, block) if levels and fits else None


def _is_joined(kind: str, of: DType) -> bool:
    """Whether folds of parts are the fold of all, to the bit."""
    is_choice = kind in ("maximum", "minimum") and not of.is_complex
    return of.bits >= 8 and (is_choice or of.is_integral)


def _sums_that_fit(of: DType, lanes: int, row: int, places: int, device: Device) -> Sums | None:
    """As many elements of a row as a kernel's scratch holds for all places, in whole vectors of
    their type, beside those that are left at its end; None: not even one vector."""
    fit = SCRATCH_BYTES // max(1, places * of.size_bytes)
    vector = max(1, min(lanes, device.compute.vector_bytes // of.size_bytes))
    for n in (lanes, *range(lanes // vector * vector, 0, -vector)):
        if n and n + row % n <= fit:
            return Sums(of, n)
    return None


def selected_type(i: Instruction, lanes: int, device: Device) -> DType | None:
    """The type that the sums of a select-and-scatter are kept in; None: in its output. As many
    windows as cover a place may select it."""
    of, reducer = i.shape.dtype, i.called[1]
    if not of.is_floating or of.bits > 32 or fold_kind(reducer) != "add":
        return None
    windows = zip(i.attrs.window.dimensions, i.shape.dims)
    terms = prod(-(-min(w.size, n) // w.stride) for w, n in windows)
    places = prod(n for w, n in zip(i.attrs.window.dimensions, i.shape.dims) if not w.is_trivial)
    most = share_bytes(device, MOST_SHARE)
    if terms < LEAST_TERMS or places * lanes * F64.size_bytes > most:
        return None
    return F64 if of is F32 else F32


class ScratchSums:
    """A step's part of an output, in a scratch: all of some dimensions (`sizes`, by dimension),
    `lanes` elements of `minor`, and one place in each other dimension."""

    def __init__(
        self,
        e: Elements,
        output: Source,
        sizes: Mapping[int, int],
        minor: int | None,
        lanes: int,
        of: DType,
    ) -> None:
        self.e, self.output, self.sizes = e, output, sizes
        self.minor, self.lanes, self.of = minor, lanes, of
        strides = [0] * len(output.strides)
        step = lanes
        for d in reversed(list(sizes)):
            strides[d] = step
            step *= sizes[d]
        if minor is not None:
            strides[minor] = 1
        with e.builder.at(0):
            self.source = Source(e.builder.alloc(of, step), tuple(strides))

    def place(self, index: Index) -> Index:
        """Where an element of the output is in the scratch."""
        digits = [x if d in self.sizes else ZERO for d, x in enumerate(index)]
        if self.minor is not None:
            digits[self.minor] = self.e.indices.lane(0, self.lanes, 1)
        return tuple(digits)

    def fill(self, at: Sequence[Affine], value: Value | None = None) -> None:
        """Begin with one value everywhere, or with what stands in the output."""
        e, b = self.e, self.e.builder

        def move(index: Index) -> None:
            x = e.load(self.output, index) if value is None else value
            e.store(self.source, self.place(index), b.convert(x, self.of))

        self._each(at, move)

    def finish(self, at: Sequence[Affine]) -> None:
        """Write the sums to the output."""
        e, b, of = self.e, self.e.builder, self.output.buffer.dtype

        def move(index: Index) -> None:
            e.store(self.output, index, b.convert(e.load(self.source, self.place(index)), of))

        self._each(at, move)

    def add_to(self, outer: ScratchSums | None, at: Sequence[Affine], kind: str = "add") -> None:
        """Add the sums of a block to those of the blocks before it; None: to the output."""
        e, b = self.e, self.e.builder

        def move(index: Index) -> None:
            target, there = self.output, index
            if outer is not None:
                target, there = outer.source, outer.place(index)
            x, y = e.load(target, there), e.load(self.source, self.place(index))
            e.store(target, there, b.binary(kind, x, y))

        self._each(at, move)

    def _each(self, at: Sequence[Affine], move: Callable[[Index], None]) -> None:
        """`move` for all elements; in tiles along the last dimension where `lanes` is 1."""
        e, dims = self.e, list(self.sizes)
        extents = list(self.sizes.values())

        def one(position: Sequence[Affine]) -> Sequence[Value]:
            index = list(at)
            for d, x in zip(dims, position):
                index[d] = x
            move(tuple(index))
            e.forget(e.builder.depth)
            return ()

        if self.lanes > 1 or not dims:
            nest(e, extents, (), one)
            return
        length = extents.pop()
        size = min(e.device.compute.vector_bytes // self.of.size_bytes, length)

        def line(position: Sequence[Affine]) -> Sequence[Value]:
            def tile(start: Affine, n: int) -> Sequence[Value]:
                e.tile = (n,) if n > 1 else ()
                one([*position, start.plus(e.indices.lane(0, n, 1))])
                e.tile = ()
                return ()

            full = length - length % size
            e.loop(full, (), lambda k: tile(k, size), step=size)
            return tile(constant(full), length - full) if full < length else ()

        nest(e, extents, (), line)
