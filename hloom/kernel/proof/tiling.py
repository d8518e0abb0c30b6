"""Sets of offsets as boxes, and whether boxes tile a range.

A `Box` is `{start + sum(stride_k * d_k)}` with every digit `d_k` in `[0, count_k)`. `covers` asks
whether boxes contain each of `0 .. length - 1`, and, where two steps of the grid could write,
contain it once. It moves boxes so that those of the greatest stride begin at a multiple of it, and
descends through the strides from the greatest: at stride S the digits are cut into segments in
which the same boxes are active, and what these leave below S must tile `[0, S)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple


class Digit(NamedTuple):
    """`count` places at distances of `stride`; `owner` is the grid axis that chooses among them,
    None if one step goes to all."""

    stride: int
    count: int
    owner: object = None


class Box(NamedTuple):
    """Offsets that one store writes; digits by falling stride, each of two places at least."""

    start: int
    digits: tuple[Digit, ...]
    step: frozenset[object] = frozenset()
    """What is known of the step that writes it, and no digit says: boxes in which that differs
    are those of other steps."""

    @staticmethod
    def of(start: int, digits: Iterable[Digit], step: frozenset[object] = frozenset()) -> Box:
        """A box whose digits may go down, or stand still."""
        kept_digits = []
        for stride, count, owner in digits:
            if count == 1:
                continue
            if stride < 0:
                start, stride = start + stride * (count - 1), -stride
            kept_digits.append(Digit(stride, count, owner))
        kept_digits.sort(key=lambda d: (-d.stride, d.count))
        joined: list[Digit] = []
        for d in kept_digits:
            last = joined[-1] if joined else None
            if last and last.owner is d.owner is None and last.stride == d.stride:
                joined[-1] = Digit(d.stride, last.count + d.count - 1)  # their sums are one digit
            elif last and last.stride == d.stride * d.count and last.owner is d.owner is None:
                joined[-1] = Digit(d.stride, last.count * d.count)  # one run
            else:
                joined.append(d)
        return Box(start, tuple(joined), step)

    @property
    def extent(self) -> int:
        """From its first to its last offset, both counted."""
        return 1 + sum(d.stride * (d.count - 1) for d in self.digits)

    @property
    def is_owned(self) -> bool:
        """Whether which step it is still matters."""
        return any(d.owner is not None for d in self.digits)


MOST_PIECES = 100_000
"""Boxes that meet, times the segments they are cut into, above which nothing is concluded."""
MOST_SHIFTS = 4


def covers(boxes: Iterable[Box], length: int, everywhere: bool = True) -> bool:
    """Whether boxes contain all offsets of `[0, length)`, and none that two steps would write.

    With `everywhere` False only the latter. False means that it could not be shown.
    """
    distinct = list(dict.fromkeys(boxes))
    if length <= 0:
        return not distinct
    if not any(b.is_owned for b in distinct) and len({b.step for b in distinct}) < 2:
        if not everywhere:
            return True
        if any(b.start <= 0 and _is_run(b) and b.start + b.extent >= length for b in distinct):
            return True
    if len(apart := _apart(distinct)) > 1:
        return _cover_in_turn(apart, length, everywhere)
    stride = max((d.stride for b in distinct for d in b.digits), default=0)
    if not stride:
        points = {b.start for b in distinct}
        inside = all(0 <= p < length for p in points) and len(points) == len(distinct)
        return inside and (not everywhere or len(points) == length)
    return any(
        _covers_by(_shifted(distinct, by, everywhere), stride, length + by, everywhere)
        for by in _shifts(distinct, stride)
    )


def _apart(boxes: list[Box]) -> list[list[Box]]:
    """Boxes in groups whose ranges do not touch one another, by rising start."""
    groups: list[list[Box]] = []
    end = 0
    for b in sorted(boxes, key=lambda b: b.start):
        if not groups or b.start >= end:
            groups.append([])
            end = b.start
        groups[-1].append(b)
        end = max(end, b.start + b.extent)
    return groups


def _cover_in_turn(groups: list[list[Box]], length: int, everywhere: bool) -> bool:
    """`covers`, of groups of boxes one behind the other."""
    end = 0
    for group in groups:
        start = group[0].start
        if start < 0 or (everywhere and start != end):
            return False
        extent = max(b.start + b.extent for b in group) - start
        if not covers([b._replace(start=b.start - start) for b in group], extent, everywhere):
            return False
        end = start + extent
    return end == length if everywhere else end <= length


def _shifts(boxes: list[Box], stride: int) -> list[int]:
    """By how much to move boxes so that those that go in steps of a stride begin at multiples."""
    starts = [b.start for b in boxes if b.digits and b.digits[0].stride == stride]
    return list(dict.fromkeys([0, *(-start % stride for start in starts)]))[:MOST_SHIFTS]


def _shifted(boxes: list[Box], by: int, everywhere: bool) -> list[Box]:
    """Boxes that begin further on; what is then before the range counts as written once."""
    if not by:
        return boxes
    before = [Box(0, (Digit(1, by),) if by > 1 else ())] if everywhere else []
    return before + [b._replace(start=b.start + by) for b in boxes]


def _is_run(b: Box) -> bool:
    """Whether a box is one offset after the other."""
    size = 1
    for stride, count, _ in reversed(b.digits):
        if stride > size:
            return False
        size = max(size, stride * (count - 1) + size)
    return True


def _covers_by(boxes: list[Box], stride: int, length: int, everywhere: bool) -> bool:
    """`covers`, by the digits of the greatest stride."""
    active: list[tuple[int, int, Box, object]] = []
    for box in boxes:
        for part in _aligned(box, stride):
            first, below = divmod(part.start, stride)
            top = part.digits[0] if part.digits and part.digits[0].stride == stride else None
            rest = part.digits[1:] if top else part.digits
            if rest and rest[0].stride == stride:
                return False  # two digits of one stride
            inner = Box(below, rest, part.step)
            if below + inner.extent > stride:
                return False
            count, owner = (top.count, top.owner) if top else (1, None)
            active.append((first, first + count, inner, owner))
    last, tail = divmod(length, stride)
    cuts = {0, last} | ({last + 1} if tail else set())
    cuts |= {x for first, end, _, _ in active for x in (first, end)}
    edges = sorted(cuts)
    if len(active) * len(edges) > MOST_PIECES:
        return False
    if edges[0] < 0 or edges[-1] > last + bool(tail):
        return False
    for begin in edges[:-1]:
        here = [(b, owner, first) for first, stop, b, owner in active if first <= begin < stop]
        if not here and not everywhere:
            continue
        within = [b for b, _, _ in here]
        # Steps chosen by this digit are others for each place; boxes that are not all chosen alike
        # are those of other steps.
        chosen = [(owner, first if owner is not None else 0) for _, owner, first in here]
        if len(set(chosen)) > 1 and not _disjoint(within):
            within = [b._replace(step=b.step | {by}) for b, by in zip(within, chosen)]
        size = tail if tail and begin == last else stride
        if not covers(within, size, everywhere):
            return False
    return True


def _disjoint(boxes: list[Box]) -> bool:
    """Whether the ranges of boxes do not touch, so that it does not matter who writes them."""
    ranges = sorted((b.start, b.start + b.extent) for b in boxes)
    return all(a[1] <= b[0] for a, b in pairwise(ranges))


def _aligned(box: Box, stride: int) -> list[Box]:
    """A box in parts that do not go beyond a multiple of a stride, if its first digit is longer."""
    if not box.digits or box.digits[0].stride == stride:
        return [box]
    first, *others = box.digits
    below = box.start % stride
    if below + box.extent <= stride or stride % first.stride:
        return [box]
    inner = 1 + sum(d.stride * (d.count - 1) for d in others)
    each = stride // first.stride
    at = below // first.stride
    if below % first.stride + inner > first.stride:
        return [box]
    parts, start, left = [], box.start, first.count
    for count in (min(-at % each, left), None, 0):
        if count is None:
            rows = left // each
            if rows:
                digits = (Digit(stride, rows, first.owner), first._replace(count=each), *others)
                # Not `Box.of`, which would join them again.
                parts.append(Box(start, tuple([d for d in digits if d.count > 1]), box.step))
            count = rows * each
        elif count == 0 and start != box.start:
            count = left
            if count:
                parts.append(Box.of(start, (first._replace(count=count), *others), box.step))
        elif count:
            parts.append(Box.of(start, (first._replace(count=count), *others), box.step))
        start += count * first.stride
        left -= count
    if left:
        parts.append(Box.of(start, (first._replace(count=left), *others), box.step))
    return parts
