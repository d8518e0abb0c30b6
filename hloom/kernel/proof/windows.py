"""The digits of all numbers of a window, which need not begin or end where a digit does.

A sum of indices takes each number from `low` to `high`; a store goes to a place made of quotients
and remainders of it. Within one quotient the window is what remains of it, and of whole quotients
the digits are independent; any other window is cut where a quotient begins, and its parts are
looked at apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from hloom.kernel.proof.linear import Linear, Symbol
from hloom.kernel.proof.parts import Part
from hloom.kernel.proof.tiling import Box, Digit, covers


class NumberSpan(NamedTuple):
    """The numbers from `low` to `high`, both counted."""

    low: int
    high: int

    @staticmethod
    def of(boxes: Sequence[Box]) -> NumberSpan | None:
        """What boxes fill without a gap; None where they leave one."""
        low = min((b.start for b in boxes), default=0)
        high = max((b.start + b.extent for b in boxes), default=0) - 1
        moved = [b._replace(start=b.start - low) for b in boxes]
        return NumberSpan(low, high) if covers(moved, high - low + 1) else None

    def within(self, x: Linear, facts: Iterable[Linear]) -> NumberSpan:
        """What facts about the number leave of it."""
        low, high = self
        for fact in facts:
            if fact.terms == x.terms:
                low = max(low, x.const - fact.const)
            elif is_bound(fact, x):
                high = min(high, x.const + fact.const)
        return NumberSpan(low, high)


def is_bound(fact: Linear, x: Linear) -> bool:
    """Whether a fact says what a sum is at least, or at most, and nothing else."""
    return fact.terms == x.terms or fact.terms == {s: -c for s, c in x.terms.items()}


class Cut(NamedTuple):
    """A window has to be looked at in two parts; the second begins here."""

    at: int


class WindowDigits(NamedTuple):
    """Where the places of all numbers of a window begin, the digits that have several values, each
    with the least of them, and the values of those that have one."""

    const: int
    digits: list[tuple[Part, int, Digit]]
    fixed: list[tuple[Part, int]]

    def further(self, part: Part, value: int, c: int, count: int) -> WindowDigits:
        """With one more digit above."""
        const = self.const + c * value
        if count == 1:
            return WindowDigits(const, self.digits, [(part, value), *self.fixed])
        return WindowDigits(const, [(part, value, Digit(c, count)), *self.digits], self.fixed)


def window_places(
    window: NumberSpan, parts: Sequence[tuple[Part, int]]
) -> WindowDigits | Cut | None:
    """The places of all numbers of a window; each part is a digit of the number and what it is
    multiplied by, those of the greatest divisor first. None where digits are not independent."""
    low, high = window
    if not parts or low == high:
        values = [(part, part.value(low)) for part, _ in parts]
        return WindowDigits(sum([c * v for (_, c), (_, v) in zip(parts, values)]), [], values)
    (part, c), lower = parts[0], parts[1:]
    by, of = part.by, part.of
    first, last = low // by, high // by
    if first == last:
        inner = window_places(NumberSpan(low - first * by, high - first * by), lower)
        if isinstance(inner, Cut):
            return Cut(inner.at + first * by)
        return inner and inner.further(part, part.value(low), c, 1)
    if low % by:
        return Cut((first + 1) * by)
    if (high + 1) % by:
        return Cut(last * by)
    if of is not None and first % of + last - first >= of:
        return None
    inner = window_places(NumberSpan(0, by - 1), lower)
    if inner is None or isinstance(inner, Cut):
        return None
    return inner.further(part, part.value(low), c, last - first + 1)


def tells(window: NumberSpan, parts: Sequence[Part]) -> bool:
    """Whether digits, those of the greatest divisor first, are others for each number of a window
    whose places are known."""
    low, high = window
    if low == high or not parts:
        return low == high
    by = parts[0].by
    first = low // by
    whole = first < high // by
    inner = NumberSpan(0, by - 1) if whole else NumberSpan(low - first * by, high - first * by)
    return tells(inner, parts[1:])


@contextmanager
def as_made(x: Linear, known_symbols: set[Symbol]) -> Iterator[None]:
    """Give the symbols of a number, and those that its loops begin and end with, the values that
    they had before its digits were bounded; but not those that facts tell of."""
    before: dict[Symbol, tuple[int, int]] = {}
    todo = list(x.terms)
    for s in todo:  # which grows
        if s in before or s in known_symbols:
            continue
        before[s] = (s.low, s.high)
        low, count = s.all
        s.low, s.high = low, low + (count - 1) * s.step
        if s.origin[:1] == ("loop",):
            todo += [*s.origin[1].terms, *s.origin[2].terms]
    try:
        yield
    finally:
        for s, (low, high) in before.items():
            s.low, s.high = low, high
