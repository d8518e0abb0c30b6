"""Indices as sums of symbols: what folds, and that what does not fold divides right."""

from __future__ import annotations

import itertools

import pytest

from hloom.codegen.affine import ZERO, Affine, Indices, Symbol, linear
from hloom.kernel.kernel import S64, TileType, Value


def value_of(x: Affine, known: dict[Symbol, int]) -> int:
    """The number an index stands for, from those of its plain symbols."""
    total = x.const
    for symbol, factor in x.terms:
        if symbol.origin is None:
            total += factor * known[symbol]
            continue
        kind, inside, by = symbol.origin
        number = value_of(inside, known)
        total += factor * (number // by if kind == "div" else number % by)
    return total


@pytest.mark.parametrize("sizes", [(4, 6, 5), (7, 1, 3), (2, 2, 30), (60,)])
@pytest.mark.parametrize("step", [1, 4, 7])
def test_digits_are_those_of_the_number(sizes: tuple[int, ...], step: int) -> None:
    indices = Indices()
    a, b = indices.lane(0, 3, 2), indices.lane(1, 2, 2)
    x = a.times(step).plus(b.times(3)).plus(2)
    symbols = [a.terms[0][0], b.terms[0][0]]
    digits = indices.digits(x, sizes)
    for numbers in itertools.product(range(3), range(2)):
        known = dict(zip(symbols, numbers))
        rest = value_of(x, known)
        for digit, size in list(zip(digits, sizes))[:0:-1]:
            assert value_of(digit, known) == rest % size
            rest //= size
        assert value_of(digits[0], known) == rest


def test_digits_that_come_together_are_the_number() -> None:
    indices = Indices()
    x = indices.lane(0, 60, 1).plus(1)
    digits = indices.digits(x, (4, 5, 3))
    assert linear(digits, (15, 3, 1)) == x
    assert linear(digits, (15, 3, 2)) != x


def test_quotients_fold_where_ranges_allow() -> None:
    indices = Indices()
    h, j = indices.lane(0, 8, 2), indices.lane(1, 64, 2)
    x = h.times(64).plus(j)
    assert indices.quotient(x, 64) == h
    assert indices.remainder(x, 64) == j
    assert indices.quotient(x.plus(1), 64) != h
    assert indices.lane(0, 1, 2) is ZERO


def test_bounds() -> None:
    indices = Indices()
    x = indices.lane(0, 8, 1).times(-3).plus(5)
    assert x.bounds() == (-16, 5)
    assert indices.quotient(x, 4).bounds() == (-4, 1)


def test_quotients_of_steps_leave_known_remainders() -> None:
    """A loop in steps of 64: what is left of a division by 4 is that of the lanes alone."""
    indices = Indices()
    k = indices.scalar(Value(TileType(S64, ())), 0, 640, 64)
    lane = indices.lane(0, 64, 1)
    x = k.plus(lane)
    assert indices.remainder(x, 4) == indices.remainder(lane, 4)
    assert indices.remainder(k.plus(3), 4) == Affine(3)
    assert indices.quotient(x, 4).bounds() == (0, 160 + 15)
    assert linear(indices.digits(x, (44, 4, 4)), (16, 4, 1)) == x
    [(symbol, _)] = k.terms
    for number in (0, 64, 128, 640):
        for by in (2, 4, 48, 128):
            known = {symbol: number, lane.terms[0][0]: 37}
            assert value_of(indices.quotient(x, by), known) == (number + 37) // by
            assert value_of(indices.remainder(x, by), known) == (number + 37) % by


@pytest.mark.parametrize(("step", "lanes", "by"), [(64, 64, 4096), (16, 16, 1200), (8, 5, 24)])
@pytest.mark.parametrize("steps", [0, 1, -1])
def test_what_a_loop_in_steps_of_whole_vectors_leaves_is_a_step_and_lanes(
    step: int, lanes: int, by: int, steps: int
) -> None:
    indices, const = Indices(), steps * step
    k = indices.scalar(Value(TileType(S64, ())), 0, 200 * step, step)
    lane = indices.lane(0, lanes, 1)
    x = k.plus(lane).plus(const)
    q, r = indices.quotient(x, by), indices.remainder(x, by)
    assert r.is_strided and not q.axes
    assert r.bounds()[0] >= 0 and r.bounds()[1] < by
    assert q.times(by).plus(r) == x
    for n in range(0, 201, 3):
        for j in range(lanes):
            known = {k.terms[0][0]: n * step, lane.terms[0][0]: j}
            assert value_of(q, known) == (n * step + j + const) // by
            assert value_of(r, known) == (n * step + j + const) % by


def test_lanes_that_reach_over_a_step_are_no_part_of_it() -> None:
    indices = Indices()
    k = indices.scalar(Value(TileType(S64, ())), 0, 4096, 64)
    x = k.plus(indices.lane(0, 64, 1))
    assert indices.remainder(x, 1000).axes and indices.quotient(x, 1000).axes


def test_quotients_of_whole_steps_are_whole_steps() -> None:
    indices = Indices()
    k = indices.scalar(Value(TileType(S64, ())), 0, 640, 64)
    lane = indices.lane(0, 64, 1)
    x = indices.quotient(k.plus(lane), 4).plus(-1)
    assert indices.remainder(x, 8) == indices.remainder(indices.quotient(lane, 4).plus(7), 8)
    assert indices.remainder(indices.quotient(k, 4), 32).terms
    [(symbol, _)] = indices.quotient(k, 4).terms
    assert symbol.step == 16


def test_steps() -> None:
    indices = Indices()
    first, second = (indices.scalar(Value(TileType(S64, ())), 0, 9) for _ in range(2))
    assert first.times(12).plus(second.times(18)).plus(30).step == 6
    assert first.step == 1
    assert Affine(8).step == 8
    assert indices.quotient(first.times(12).plus(8), 4).step == 1
    assert indices.quotient(first.times(24).plus(8), 4).step == 2


def test_rows_of_a_group_have_one_quotient() -> None:
    """In steps of 8 the numbers after the first are in the same group of 32."""
    indices = Indices()
    k = Affine(0, ((Symbol(1000, 0, 504, step=8), 1),))
    quotients = {indices.quotient(k.plus(j), 32) for j in range(8)}
    assert len(quotients) == 1
    rests = [indices.remainder(k.plus(j), 32) for j in range(8)]
    assert [x.plus(rests[0].times(-1)) for x in rests] == [Affine(j) for j in range(8)]
    symbol = k.terms[0][0]
    for number, j in itertools.product(range(0, 505, 8), range(8)):
        assert value_of(indices.quotient(k.plus(j), 32), {symbol: number}) == (number + j) // 32
        assert value_of(rests[j], {symbol: number}) == (number + j) % 32
    assert len({indices.quotient(k.plus(j), 32) for j in range(9)}) == 2
