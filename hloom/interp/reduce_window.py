"""Reduce-window: a fold over every position of a window.

Elements of the padding, and those that base dilation puts between, are left out of the fold: the
initial value enters once per window (this is what XLA does; only for a neutral initial value is
padding with it the same).

A small window is folded offset by offset, each on all positions at once, in row-major order of
the window. For a large one (a running sum is a window as long as its array) each dimension is
folded by doubling: windows of 1, 2, 4, ... elements, from which one of any size is put together;
that costs log2 of the size, keeps the order, and relies on associativity.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import gcd, prod

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.context import EvalContext
from hloom.interp.reduce_fold import Array, Arrays, Fold, as_result, fold_of, result_types
from hloom.interp.registry import MEANING
from hloom.interp.values import EvalValue, check_scratch, fits
from hloom.ir.instruction import Instruction
from hloom.ir.values.window import WindowDimension

SMALL_WINDOW = 256
"""Windows of up to so many elements are folded offset by offset."""


@MEANING.of("reduce-window")
def reduce_window(i: Instruction, context: EvalContext, *values: Array) -> EvalValue:
    count = len(values) // 2
    fold, types = fold_of(context, i.called[0], count), result_types(i.shape)
    inputs, initial = fold.enter(values[:count]), fold.enter(values[count:])
    window = i.attrs.window
    # The text may leave the window of a scalar out.
    dimensions = window.dimensions or (WindowDimension(1),) * inputs[0].ndim
    sizes = tuple(d.output_size(n) for d, n in zip(dimensions, inputs[0].shape))
    expected = i.shape.elements[0] if i.shape.is_tuple else i.shape
    if not fits(sizes, expected):
        # Memory was counted by the shape, and a module that nobody verified may say another.
        raise EvalError(f"the window gives sizes {list(sizes)}, not {expected.bare}")
    start = tuple(np.broadcast_to(v, sizes) for v in initial)
    is_empty = 0 in sizes or 0 in inputs[0].shape
    cut = () if is_empty else [d.clipped(n) for d, n in zip(dimensions, inputs[0].shape)]
    dimensions = tuple([d for d in cut if d is not None])
    if is_empty or len(dimensions) < len(cut):  # padding is all there is
        results = start
    elif prod(map(touching_at_most, dimensions, inputs[0].shape, sizes)) <= SMALL_WINDOW:
        results = _by_offset(fold, inputs, start, dimensions)
    else:
        room, limit = sum(x.itemsize for x in inputs), context.options.memory_limit_bytes
        check_scratch(room * _most_places(dimensions, inputs[0].shape), limit, i)
        results = _by_doubling(fold, inputs, start, dimensions)
    return as_result(i.shape, fold.leave(results, types))


# -- which elements a window covers -------------------------------------------------------------


def covered(d: WindowDimension, offset: int, base: int, positions: int) -> tuple[slice, slice]:
    """Of `positions` window positions, those whose element number `offset` lies on an element of
    the base (size `base`), and those elements: two slices of equal length."""
    if d.window_reversal:
        offset = d.size - 1 - offset
    # Position p touches place p * stride + shift of the dilated base; elements are on multiples.
    shift = offset * d.window_dilation - d.padding_low
    common = gcd(d.stride, d.base_dilation)
    if base == 0 or shift % common:
        return slice(0, 0), slice(0, 0)
    step = d.base_dilation // common
    first = -shift // common * pow(d.stride // common, -1, step) % step if step > 1 else 0
    missing = -(first * d.stride + shift)
    if missing > 0:
        first += -(-missing // (step * d.stride)) * step
    highest = (base - 1) * d.base_dilation
    last = min(positions - 1, (highest - shift) // d.stride)
    if last < first:
        return slice(0, 0), slice(0, 0)
    number = (last - first) // step + 1
    element = (first * d.stride + shift) // d.base_dilation
    element_step = step * d.stride // d.base_dilation
    return (
        slice(first, first + (number - 1) * step + 1, step),
        slice(element, element + (number - 1) * element_step + 1, element_step),
    )


def touching_at_most(d: WindowDimension, base: int, positions: int) -> int:
    """How many elements of a window lie on the base at some position, at most."""
    return min(d.size, base * positions)


def touching(d: WindowDimension, base: int, positions: int) -> Sequence[int]:
    """The elements of a window that can lie on the base, in order: of a window that is much
    longer than its base those that meet an element at some position, however long it is."""
    if d.size <= base * positions:
        return range(d.size)
    met: set[int] = set()
    for place in range(d.padding_low, d.padding_low + base * d.base_dilation, d.base_dilation):
        for start in range(0, positions * d.stride, d.stride):
            k, beside = divmod(place - start, d.window_dilation)
            if not beside and 0 <= k < d.size:
                met.add(d.size - 1 - k if d.window_reversal else k)
    return sorted(met)


def offsets(dimensions: tuple[WindowDimension, ...], base: tuple[int, ...], out: tuple[int, ...]):
    """For each element of the window, in row-major order: the positions at which it lies on the
    base, and the elements it lies on there."""
    lines = [
        [covered(d, k, n, p) for k in touching(d, n, p)] for d, n, p in zip(dimensions, base, out)
    ]
    for parts in product(*lines):
        if all(p.stop for p, _ in parts):
            # The ellipsis keeps an array an array where there are no dimensions.
            yield (*(p for p, _ in parts), ...), (*(e for _, e in parts), ...)


def _by_offset(
    fold: Fold, inputs: Arrays, start: Arrays, dimensions: tuple[WindowDimension, ...]
) -> Arrays:
    out = tuple(v.copy() for v in start)
    for positions, elements in offsets(dimensions, inputs[0].shape, out[0].shape):
        now = tuple(v[positions] for v in out)
        if fold.ufunc is not None and fold.opcode not in ("maximum", "minimum"):
            fold.ufunc(now[0], inputs[0][elements], out=now[0])
            continue
        folded = fold.combine(now, tuple(x[elements] for x in inputs))
        for v, part in zip(out, folded):
            v[positions] = part
    return out


# -- large windows ------------------------------------------------------------------------------


def _by_doubling(
    fold: Fold, inputs: Arrays, start: Arrays, dimensions: tuple[WindowDimension, ...]
) -> Arrays:
    """Dimension by dimension, the minor one first: that keeps the row-major order of elements."""
    partial = _Partial(fold, inputs, None)
    for axis in range(len(dimensions) - 1, -1, -1):
        if not dimensions[axis].is_trivial:
            partial = _fold_axis(partial, axis, dimensions[axis])
    joined = fold.combine(start, partial.values)
    if partial.known is None:
        return joined
    return tuple(np.where(partial.known, a, b) for a, b in zip(joined, start))


def _most_places(dimensions: tuple[WindowDimension, ...], base: tuple[int, ...]) -> int:
    """The most padded and dilated elements that are held at once, folded minor axes first."""
    sizes, most = list(base), 0
    for axis in range(len(dimensions) - 1, -1, -1):
        d = dimensions[axis]
        if not d.is_trivial:
            folded = d.output_size(sizes[axis])
            sizes[axis] = d.padded_size(sizes[axis])
            most = max(most, prod(sizes))
            sizes[axis] = folded
    return most


class _Partial:
    """Partial folds, and where there is one at all (None: everywhere, holes hold the identity)."""

    __slots__ = ("fold", "known", "values")

    def __init__(self, fold: Fold, values: Arrays, known: Array | None) -> None:
        self.fold, self.values, self.known = fold, values, known

    def part(self, where: tuple[slice, ...]) -> _Partial:
        known = None if self.known is None else self.known[where]
        return _Partial(self.fold, tuple(v[where] for v in self.values), known)

    def then(self, other: _Partial) -> _Partial:
        """Both folded, this first."""
        joined = self.fold.combine(self.values, other.values)
        if self.known is None or other.known is None:
            return _Partial(self.fold, joined, None)
        both = self.known & other.known
        values = tuple(
            np.where(both, j, np.where(self.known, a, b))
            for j, a, b in zip(joined, self.values, other.values)
        )
        return _Partial(self.fold, values, self.known | other.known)


def _spread_out(partial: _Partial, axis: int, d: WindowDimension) -> _Partial:
    """The base with its padding and dilation along one axis, holes where no element is."""
    shape = list(partial.values[0].shape)
    n = shape[axis]
    shape[axis] = places = d.padded_size(n)
    single = WindowDimension(1, 1, d.padding_low, d.padding_high, 1, d.base_dilation)
    here, there = covered(single, 0, n, places)
    target = (slice(None),) * axis + (here,)
    source = (slice(None),) * axis + (there,)
    known: Array | None = None
    values: list[Array] = []
    identity = partial.fold.identity()
    if identity is None:
        known = np.zeros(shape, np.bool_)
        known[target] = True if partial.known is None else partial.known[source]
    for v in partial.values:
        if known is None:
            wide = np.full(shape, identity, v.dtype)
        else:
            wide = np.zeros(shape, v.dtype)
        wide[target] = v[source]
        values.append(wide)
    return _Partial(partial.fold, tuple(values), known)


def _fold_axis(partial: _Partial, axis: int, d: WindowDimension) -> _Partial:
    positions = d.output_size(partial.values[0].shape[axis])
    doubled = _spread_out(partial, axis, d)
    if d.window_reversal:
        doubled = doubled.part((slice(None),) * axis + (slice(None, None, -1),))
    places = doubled.values[0].shape[axis]

    def cut(source: _Partial, first: int, length: int, step: int = 1) -> _Partial:
        last = first + (length - 1) * step + 1
        return source.part((slice(None),) * axis + (slice(first, last, step),))

    # Invariant: doubled[p] folds `width` elements from place p on; there are `count` places.
    # total[p] folds the first `done` elements of the window that begins at p.
    width, done, count = 1, 0, places
    total: _Partial | None = None
    needed = places - d.dilated_size() + 1
    while True:
        if d.size & width:
            piece = cut(doubled, done * d.window_dilation, needed)
            total = piece if total is None else total.then(piece)
            done += width
        if done == d.size:
            break
        reach = width * d.window_dilation
        left = cut(doubled, 0, count - reach)
        doubled = left.then(cut(doubled, reach, count - reach))
        count, width = count - reach, width * 2
    assert total is not None
    if d.window_reversal:
        first = (positions - 1) * d.stride
        # Places were counted from the other end, so the last position comes first.
        begin = needed - 1 - first
        folded = cut(total, begin, positions, d.stride)
        return folded.part((slice(None),) * axis + (slice(None, None, -1),))
    return cut(total, 0, positions, d.stride)
