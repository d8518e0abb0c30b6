"""Heaps: nothing alive together overlaps, and the result is near what must be."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloom.memory.heap import best_fit, first_fit  # noqa: F401  (they register themselves)
from hloom.memory.heap.buffer_interval import HEAPS, BufferInterval, live_bytes
from hloom.memory.heap.overlap import Overlap, Spans, Timeline


@pytest.mark.parametrize("name", list(HEAPS))
def test_two_small_ones_share_an_offset(name):
    blocks = [
        BufferInterval(40, ((0, 5),)),
        BufferInterval(20, ((0, 3),)),
        BufferInterval(20, ((3, 5),)),
    ]
    packing = HEAPS[name](blocks, 1)
    assert packing.total_bytes == 60
    assert packing.offsets[1] == packing.offsets[2]


def interval_lists(times):
    cuts = sorted(set(times))
    pairs = tuple(zip(cuts[::2], cuts[1::2], strict=False))
    return pairs


@pytest.mark.parametrize("name", list(HEAPS))
def test_what_runs_side_by_side_is_apart(name):
    first, second, behind = ({"c": x} for x in ((1, 2), (2, 1), (4, 0)))
    blocks = [
        BufferInterval(40, ((0, 5),), first),
        BufferInterval(30, ((5, 9),), second),
        BufferInterval(20, ((5, 9),), first),
        BufferInterval(20, ((9, 12),), behind),
        BufferInterval(40, ((20, 25),), {"other": (2, 1)}),
    ]
    packing = HEAPS[name](blocks, 1)
    assert packing.total_bytes == 70
    assert packing.offsets[0] == packing.offsets[4]
    places = [(o, o + b.size_bytes) for o, b in zip(packing.offsets, blocks)]
    for k in (0, 2):
        assert places[k][1] <= places[1][0] or places[1][1] <= places[k][0]


BLOCKS = st.lists(
    st.builds(
        BufferInterval,
        st.integers(0, 300),
        st.lists(st.integers(0, 40), min_size=2, max_size=6, unique=True).map(interval_lists),
    ),
    max_size=30,
)


@pytest.mark.parametrize("name", list(HEAPS))
@given(blocks=BLOCKS, alignment=st.sampled_from([1, 64]))
@settings(max_examples=60)
def test_nothing_alive_together_overlaps(name, blocks, alignment):
    packing = HEAPS[name](blocks, alignment)
    assert packing.total_bytes >= live_bytes(blocks, alignment)
    for k, a in enumerate(blocks):
        start = packing.offsets[k]
        assert start % alignment == 0 and start + a.size_bytes <= packing.total_bytes
        for j in range(k):
            b, other = blocks[j], packing.offsets[j]
            together = any(s < f and t < e for s, e in a.intervals for t, f in b.intervals)
            if together and a.size_bytes and b.size_bytes:
                assert start + a.size_bytes <= other or other + b.size_bytes <= start


def test_however_many_blocks_are_alive_a_query_costs_the_holes():
    blocks = [BufferInterval(64, ((k // 2, 4000 + k),)) for k in range(2000)]
    overlap = Overlap(Timeline(blocks))
    for k, block in enumerate(blocks):
        overlap.add(block, 64 * k, 64 * k + 64)
    taken = overlap.taken_beside(BufferInterval(64, ((0, 4000),)))
    assert (taken[0][0], max(end for _, end in taken)) == (0, 64 * 2000)
    assert len(taken) < 50


@given(spans=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=20))
def test_spans_hold_what_was_added_and_no_two_touch(spans):
    joined, taken = Spans(), set()
    for start, length in spans:
        joined.add(start, start + length)
        taken.update(range(start, start + length))
    pairs = list(zip(joined.starts, joined.ends, strict=True))
    assert {k for start, end in pairs for k in range(start, end)} == taken
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(pairs))
