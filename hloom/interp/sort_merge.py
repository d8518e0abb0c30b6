"""Stable merge sorts of many rows at once, under any comparator.

For a comparator that is a strict weak order every stable sort gives one result. Programs also
sort floats with NaN by a plain `<`, which is none: then the result depends on which elements the
algorithm compares. `library_order` therefore compares exactly what XLA's CPU backend does, the
`std::stable_sort` of GCC's library: two halves; in each, runs of 7 sorted by insertion, merged two
by two; in the end the halves merged, from behind where the first is longer. All rows and all runs
take their steps together, but n elements need about 2 n steps. Long rows use `merged_order`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hloom.interp.context import EvalContext
from hloom.ir.computation import Computation

Array = np.ndarray[Any, Any]
Less = Callable[[Array, Array], Array]
"""Of element numbers [rows, m] and [rows, m]: whether the first go before the second."""

LIBRARY_LENGTH = 2048
"""Rows up to this long are sorted as the library does."""
CHUNK = 7


def library_order(context: EvalContext, comparator: Computation, rows: tuple[Array, ...]) -> Array:
    """The order of each row of [rows, n] arrays, as GCC's `std::stable_sort` finds it."""
    height, count = rows[0].shape
    base = np.arange(height)[:, None] * count
    flat = [x.reshape(-1) for x in rows]

    def less(a: Array, b: Array) -> Array:
        return context.vectorised(comparator, *[x[base + at] for x in flat for at in (a, b)])

    half = (count + 1) // 2
    order = np.tile(np.arange(count), (height, 1))
    starts = np.array([*range(0, half, CHUNK), *range(half, count, CHUNK)])
    ends = np.array([*_ends(0, half), *_ends(half, count)])
    order = _inserted(less, order, starts, ends)
    width = CHUNK
    while width < half:
        order = _merged_runs(less, order, _pairs(0, half, width) + _pairs(half, count, width))
        width *= 2
    if half > count - half:
        return _merged_from_behind(less, order, half)
    return _merged_runs(less, order, [(0, half, count)])


def _ends(start: int, stop: int) -> list[int]:
    return [min(k + CHUNK, stop) for k in range(start, stop, CHUNK)]


def _pairs(start: int, stop: int, width: int) -> list[tuple[int, int, int]]:
    """Neighbouring runs of `width` elements: (begin, middle, end)."""
    return [
        (k, min(k + width, stop), min(k + 2 * width, stop)) for k in range(start, stop, 2 * width)
    ]


def _inserted(less: Less, order: Array, starts: Array, ends: Array) -> Array:
    """Each run from a start to its end sorted by insertion, the front being tried first."""
    order = order.copy()
    for number in range(1, CHUNK):
        begin = starts[starts + number < ends]
        if not len(begin):
            break
        moving = order[:, begin + number]
        front = less(moving, order[:, begin])
        falling = ~front
        place = np.where(front, 0, number)
        for k in range(number, 0, -1):
            falling = falling & less(moving, order[:, begin + k - 1])
            place = np.where(falling, k - 1, place)
        for k in range(number, -1, -1):
            here = order[:, begin + k]
            before = order[:, begin + k - 1] if k else here
            order[:, begin + k] = np.where(place == k, moving, np.where(place < k, before, here))
    return order


def _merged_runs(less: Less, order: Array, runs: list[tuple[int, int, int]]) -> Array:
    """Each pair of neighbouring sorted runs merged; ties go to the first run."""
    begin, middle, end = (np.array(column) for column in zip(*runs))
    height = len(order)
    at_row = np.arange(height)[:, None]
    first = np.tile(begin, (height, 1))
    second = np.tile(middle, (height, 1))
    out = order.copy()
    for step in range(int((end - begin).max())):
        # Runs that have ended repeat their last step, on places that are not used.
        place = begin + step
        has_first, has_second = first < middle, second < end
        a = order[at_row, np.minimum(first, middle - 1)]
        b = order[at_row, np.minimum(second, np.maximum(end - 1, 0))]
        takes_second = has_second & (~has_first | less(b, a))
        open_ = place < end
        out[:, place[open_]] = np.where(takes_second, b, a)[:, open_]
        first = first + (~takes_second & has_first)
        second = second + takes_second
    return out


def _merged_from_behind(less: Less, order: Array, half: int) -> Array:
    """The two halves merged, the last place first."""
    height, count = order.shape
    at_row = np.arange(height)
    first, second = np.full(height, half - 1), np.full(height, count - 1)
    out = order.copy()
    for place in range(count - 1, -1, -1):
        a, b = order[at_row, np.maximum(first, 0)], order[at_row, np.maximum(second, half)]
        has_first, has_second = first >= 0, second >= half
        wins = less(b[:, None], a[:, None])[:, 0]
        takes_first = has_first & (~has_second | wins)
        out[:, place] = np.where(takes_first, a, b)
        first = first - takes_first
        second = second - ~takes_first
    return out


def merged_order(context: EvalContext, comparator: Computation, rows: tuple[Array, ...]) -> Array:
    """The stable order of each row of [rows, n] arrays under any comparator.

    One that is no strict weak order (NaN in float comparisons) gives some permutation. Costs
    about log2(n) squared / 2 calls of the comparator on n / 2 elements each.
    """
    height, count = rows[0].shape
    order = np.tile(np.arange(count), (height, 1))
    width = 1
    while width < count:
        order = _merged(context, comparator, rows, order, width)
        width *= 2
    return order


def _merged(
    context: EvalContext, comparator: Computation, rows: tuple[Array, ...], order: Array, width: int
) -> Array:
    """One level: sorted runs of `width` elements become runs of twice that."""
    height, count = order.shape
    place = np.arange(count)
    run = place // (2 * width)
    second = place - run * 2 * width >= width
    columns, run = place[second], run[second]
    sorted_rows = [np.take_along_axis(x, order, axis=1) for x in rows]
    ranks = _ranks(context, comparator, sorted_rows, columns, run * 2 * width, width)
    # Where the comparator contradicts itself ranks may fall within a run; they must not.
    ahead = run * (width + 1)
    ranks = np.maximum.accumulate(ranks + ahead, axis=1) - ahead
    target = columns - width + ranks + np.arange(height)[:, None] * count
    merged = np.empty(height * count, order.dtype)
    free = np.ones(height * count, np.bool_)
    free[target.reshape(-1)] = False
    merged[target.reshape(-1)] = order[:, second].reshape(-1)
    # The elements of the first run take the places that are left, in their order.
    merged[free] = order[:, ~second].reshape(-1)
    return merged.reshape(height, count)


def _ranks(
    context: EvalContext,
    comparator: Computation,
    rows: list[Array],
    columns: Array,
    begin: Array,
    width: int,
) -> Array:
    """How many elements of the first run, which begins at `begin`, come before each element of
    the second run, which are in `columns`: [rows, columns].

    An element of the second run comes before one of the first only where the comparator says so:
    that makes ties stay as they are. Binary search, in steps of falling powers of two.
    """
    height, count = rows[0].shape
    flat = [x.reshape(-1) for x in rows]
    mine = [x[:, columns] for x in rows]
    base = begin + np.arange(height)[:, None] * count - 1
    ranks = np.zeros(base.shape, np.int64)
    step = width
    while step:
        candidate = np.minimum(ranks + step, width)
        arguments: list[Array] = []
        for x, own in zip(flat, mine):
            arguments += [own, x[base + candidate]]
        ranks = np.where(context.vectorised(comparator, *arguments), ranks, candidate)
        step //= 2
    return ranks
