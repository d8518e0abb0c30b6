"""Boxes tile a range, wherever the first of them begins; overlaps and gaps are noticed."""

from __future__ import annotations

import pytest

from hloom.kernel.proof.tiling import Box, Digit, covers

ENDLESS = 1 << 62


def blocks(start: int) -> list[Box]:
    """Ten blocks of 4,096 that steps choose, 560 elements after them, and 2 more."""
    chosen = (Digit(4096, 10, "step"), Digit(1, 4096))
    return [
        Box(start, chosen),
        Box(start + 40_960, (Digit(1, 560),)),
        Box(start + 41_520, (Digit(1, 2),)),
    ]


@pytest.mark.parametrize("start", [0, 1, 6, 4095, 4096, 5000])
def test_blocks_that_begin_anywhere(start: int) -> None:
    before = [Box(0, (Digit(1, start),))] if start > 1 else [Box(0, ())] * start
    whole = start + 41_522
    assert covers(blocks(start), ENDLESS, False)
    assert covers(before + blocks(start), whole)
    assert not covers(before + blocks(start), whole + 1)
    assert not covers(before + blocks(start), whole - 1)
    if start:
        assert not covers(blocks(start), whole)


@pytest.mark.parametrize("start", [1, 4095])
@pytest.mark.parametrize(("at", "count"), [(0, 1), (4095, 2), (4097, 4096), (40_959, 2), (-1, 2)])
def test_overlaps(start: int, at: int, count: int) -> None:
    other = Box(start + at, (Digit(1, count),) if count > 1 else ())
    assert not covers([*blocks(start), other], ENDLESS, False)


@pytest.mark.parametrize("start", [1, 100])
def test_blocks_that_overlap_one_another(start: int) -> None:
    steps = Box(start, (Digit(4096, 10, "step"), Digit(1, 4097)))
    assert not covers([steps], ENDLESS, False)


@pytest.mark.parametrize(("at", "overlap"), [(2007, 0), (2006, 1), (4103, -1)])
def test_two_sets_of_blocks(at: int, overlap: int) -> None:
    """Those of one step may overlap, those of two may not."""
    one = Box(7, (Digit(4096, 3, "step"), Digit(1, 2000)))
    two = Box(at, (Digit(4096, 3, "step"), Digit(1, 2096 + overlap)))
    assert covers([one, two], ENDLESS, False) == (at < 4096)
    others = Box(at, (Digit(4096, 3, "other"), Digit(1, 2096 + overlap)))
    assert covers([one, others], ENDLESS, False) == (not overlap)


@pytest.mark.parametrize(("first", "count"), [(112, 8), (111, 8), (112, 9), (104, 16), (113, 8)])
def test_rows_of_one_step_between_those_that_steps_choose(first: int, count: int) -> None:
    """In each 120 elements steps that digits choose write 112, and another one writes 8."""
    chosen = Box(0, (Digit(600, 3, "row"), Digit(120, 5), Digit(8, 14, "column"), Digit(1, 8)))
    others = Box(first, (Digit(120, 15), Digit(1, count)), frozenset({("step", 1)}))
    assert covers([chosen, others], 1800) == (first == 112 and count == 8)
    assert not covers([chosen, others._replace(start=8)], ENDLESS, False)


@pytest.mark.parametrize("count", [200, 201, 700, 3000])
def test_many_pieces_of_rows(count: int) -> None:
    """As a concatenation of many operands writes them: one behind the other, in each row."""
    rows = (Digit(3 * count, 2, "row"), Digit(1, 3))
    pieces = [Box(3 * k, rows) for k in range(count)]
    assert covers(pieces, 6 * count)
    assert not covers(pieces[1:], 6 * count)
    assert not covers([*pieces, Box(5, (Digit(3 * count, 2, "other"),))], 6 * count)
    behind = [Box(3 * k, (Digit(1, 3),)) for k in range(count)]
    assert covers(behind, 3 * count)
    assert not covers([*behind[:7], *behind[8:]], 3 * count)
