"""Concatenations inside other kernels: which array an element comes from.

Where lanes go along the dimension that is joined, each array is asked with a mask for its lanes.
Where all lanes are in one array, and there are several, the kernel finds it by halves and asks it
alone: 64 products that a loop was unrolled into are not all computed for each row of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hloom.codegen.affine import Affine, linear
from hloom.codegen.elements import ELEMENT, Elements, Index, Source
from hloom.codegen.elements_data import both, choose, lanes_of, within
from hloom.ir.instruction import Instruction
from hloom.kernel.kernel import Value
from hloom.types.dtype import DType

LEAST_PARTS = 3
"""Fewer arrays are asked with masks: a branch keeps what follows from being joined to what stands
around it."""


FEW_IN_TURN, SOME_IN_TURN, MANY_IN_TURN = 4, (5, 6), 8


def is_stored_in_turn(count: int, dtype: DType) -> bool:
    """Whether so many values, one for each row of a vector of them, are turned and stored together;
    else each is stored by itself, one element after the other.

    Turning took 0.7 to 0.97 of the time for 5, 6 and 8 to 32 values, and compiling it down to 0.06;
    for seven, and for 5 to 7 bytes, compiling took 1.4 to 1.8 times as long, for little.
    """
    if count in SOME_IN_TURN:
        return dtype.size_bytes > 1
    return count <= FEW_IN_TURN or count >= MANY_IN_TURN


class _Part(NamedTuple):
    """An array, and where its elements begin and end along the dimension that is joined."""

    array: Instruction
    start: int
    end: int


@ELEMENT.of("concatenate")
def concatenate(e: Elements, i: Instruction, index: Index, mask: Value | None) -> Value:
    d = i.attrs.dimensions[0]
    parts = _parts_within(i, d, *index[d].bounds())
    if len(parts) >= LEAST_PARTS and not index[d].axes:
        return _by_halves(e, parts, d, index, mask)
    result: Value | None = None
    for array, start, end in parts:
        at = (*index[:d], index[d].plus(-start), *index[d + 1 :])
        here = within(e, at[d], end - start)
        value = e.value(array, at, both(e, mask, here))
        if result is None or here is None:
            result = value
        else:
            result = choose(e, here, value, result)
    assert result is not None
    return result


def _parts_within(i: Instruction, d: int, low: int, high: int) -> list[_Part]:
    """The arrays that have elements between two indices, both included."""
    parts: list[_Part] = []
    start = 0
    for x in i.operands:
        end = start + x.shape.dims[d]
        if start < end and start <= high and low < end:
            parts.append(_Part(x, start, end))
        start = end
    return parts


def _by_halves(
    e: Elements, parts: Sequence[_Part], d: int, index: Index, mask: Value | None
) -> Value:
    """The value out of the one array that has it, whose index has no lanes."""
    b, shape = e.builder, lanes_of(e, index, mask)
    position = e.scalar(index[d])
    low, high = index[d].bounds()
    # The mask excludes what is in no array; its place is said to be in one, so it must be.
    if low < parts[0].start:
        position = b.binary("maximum", position, b.index(parts[0].start))
    if high >= parts[-1].end:
        position = b.binary("minimum", position, b.index(parts[-1].end - 1))

    def chosen(some: Sequence[_Part]) -> Value:
        if len(some) == 1:
            [(array, start, end)] = some
            inside = b.binary("subtract", position, b.index(start)) if end - start > 1 else position
            k = e.indices.scalar(inside, 0, end - start - 1)
            return b.broadcast(e.value(array, (*index[:d], k, *index[d + 1 :]), mask), shape)
        half = len(some) // 2
        below = b.compare("LT", position, b.index(some[half].start))
        [value] = b.if_(below, alone(some[:half]), alone(some[half:]))
        return value

    def alone(some: Sequence[_Part]) -> Callable[[], Sequence[Value]]:
        def write() -> Sequence[Value]:
            # Elsewhere what is read here would be read for the other arrays, too.
            floor, e.floor = e.floor, b.depth
            value = chosen(some)
            e.forget(b.depth)
            e.floor = floor
            return [value]

        return write

    return chosen(parts)


def store_in_turn(e: Elements, stores: Sequence[tuple[Source, Index, Value]]) -> None:
    """Store the elements of a row for each lane, as words of them."""
    b, count = e.builder, len(stores)
    target, index, _ = stores[0]
    offset = linear(index, target.strides)
    shape = e.shape_of(offset.axes)
    if len(shape) != 1 or not offset.is_strided or offset.coefficient(0) != count:
        for source, where, value in stores:
            e.store(source, where, value)
        return
    rows = [b.reshape(b.broadcast(value, shape), (1, *shape)) for _, _, value in stores]
    base = e.scalar(Affine(offset.const, tuple([t for t in offset.terms if not t[0].axes])))
    b.store(target.buffer, base, b.concatenate(rows, 0), (1, count))
