"""Orders of the dimensions of one value, and how an order of one value becomes that of another.

An order is a tuple of the dimensions a value has in the program, outermost first: the value is
held as its transpose by it. A table says for every dimension of one value which dimension of
another it is, -1 where it is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

Order = tuple[int, ...]
Table = tuple[int, ...]
MOST_REMEMBERED = 1000
"""Answers: a program asks for the same few orders and shapes thousands of times."""


@cache
def identity(rank: int) -> Order:
    """Every dimension at its own place."""
    return tuple(range(rank))


@lru_cache(MOST_REMEMBERED)
def mapped(order: Order, table: Table | None, rank: int) -> Order:
    """The order of another value of this rank that goes with an order of this one.

    Dimensions of which the table says nothing follow the dimension before them.
    """
    if table is None:
        return order
    mapped_order = [table[d] for d in order if table[d] >= 0]
    if len(mapped_order) < rank:
        for d in range(rank):
            if d not in mapped_order:
                mapped_order.insert(mapped_order.index(d - 1) + 1 if d else 0, d)
    return tuple(mapped_order)


def inverse(order: Sequence[int]) -> Order:
    """The place of every dimension."""
    places = [0] * len(order)
    for place, d in enumerate(order):
        places[d] = place
    return tuple(places)


@lru_cache(MOST_REMEMBERED)
def large(dims: tuple[int, ...]) -> int:
    """The dimensions of more than one element, as a bit mask: only they lie in an order."""
    return sum(1 << d for d, size in enumerate(dims) if size != 1)


@lru_cache(MOST_REMEMBERED)
def _differ(a: Order, b: Order, mask: int) -> bool:
    return [d for d in a if mask >> d & 1] != [d for d in b if mask >> d & 1]


def differs(a: Order, b: Order, mask: int) -> bool:
    """Whether elements lie in another order, dimensions outside the mask apart."""
    return a != b and _differ(a, b, mask)


def without_ones(before: Sequence[int], after: Sequence[int]) -> Table | None:
    """Of a reshape that only puts in or takes out dimensions of size 1: which of the result is
    which of the operand; None for other reshapes."""
    kept_dims = [d for d, size in enumerate(after) if size != 1]
    if [size for size in before if size != 1] != [after[d] for d in kept_dims]:
        return None
    rest = iter(kept_dims)
    return tuple([next(rest) if size != 1 else -1 for size in before])
