"""Choices that cover all pairs: what is tested in every combination of two, not of all.

Where a test asks for shapes, types and instruction sets, faults depend on one of them or on two
together; the full product compiles the same kernels over and over. Drawn programs
(`tests/fuzz`) combine the rest. (Covering arrays of strength two: Cohen, Dalal, Fredman, Patton,
"The AETG system", IEEE Transactions on Software Engineering 23 (7), 1997.)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

Pair = tuple[int, int, int, int]


def covering(*choices: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows with one value of each of the given choices (two or more), so that any two values of
    any two of them meet in a row. Always the same rows, in the order of the full product."""
    ranges = [range(len(values)) for values in choices]
    missing = {
        (i, a, j, b)
        for i, j in combinations(range(len(choices)), 2)
        for a, b in product(ranges[i], ranges[j])
    }
    rows: list[tuple[int, ...]] = []
    while missing:
        row = _row(min(missing), ranges, missing)
        missing -= _pairs(row)
        rows.append(row)
    return [tuple(v[k] for v, k in zip(choices, row, strict=True)) for row in sorted(rows)]


def _row(pair: Pair, ranges: list[range], missing: set[Pair]) -> tuple[int, ...]:
    """A row with a pair, each other value of which meets most of the others for the first time."""
    i, a, j, b = pair
    chosen = {i: a, j: b}
    for k in range(len(ranges)):
        if k not in chosen:
            chosen[k] = max(ranges[k], key=lambda v: (_new(k, v, chosen, missing), -v))
    return tuple(chosen[k] for k in range(len(ranges)))


def _new(k: int, value: int, chosen: dict[int, int], missing: set[Pair]) -> int:
    """How many pairs a value of choice `k` makes for the first time."""
    return sum(
        ((m, v, k, value) if m < k else (k, value, m, v)) in missing for m, v in chosen.items()
    )


def _pairs(row: tuple[int, ...]) -> set[Pair]:
    return {(i, row[i], j, row[j]) for i, j in combinations(range(len(row)), 2)}
