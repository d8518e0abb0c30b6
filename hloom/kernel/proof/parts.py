"""Symbols as digits of numbers: `(x div 12) mod 5`, also where it was divided step by step."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Any, NamedTuple

from hloom.kernel.proof.linear import Linear, Symbol
from hloom.kernel.proof.tiling import Box


class Part(NamedTuple):
    """`(base div by) mod of`, one digit of a number; `of` is None for what is left at the top."""

    base: Any
    by: int
    of: int | None

    def value(self, number: int) -> int:
        """The digit of a number."""
        quotient = number // self.by
        return quotient if self.of is None else quotient % self.of

    def holds(self, step: int) -> bool:
        """Whether what lies below a step is part of it, or of those below it, so that the digit of
        a number that goes in such steps does, too."""
        return step % self.by == 0 and (self.of is None or self.by * self.of % step == 0)


Parts = list[tuple[Part, Symbol, int]]
"""Digits of one number, as symbols, and what they are multiplied by."""


def is_data(s: Symbol) -> bool:
    """Whether a symbol depends on what stands in memory."""
    kind = s.origin[0] if s.origin else "data"
    if kind in ("div", "mod"):
        return any(is_data(t) for t in s.origin[1].terms)
    if kind in ("extreme", "select"):
        return any(is_data(t) for x in s.origin[2:] for t in x.terms)
    return not is_plain(s)


def is_plain(s: Symbol) -> bool:
    """Whether a symbol has each value of its range, whatever the others are."""
    return s.origin[:1] in (("grid",), ("loop",), ("lane",), ("run",))


def is_open(s: Symbol) -> bool:
    """Whether a symbol is a loop whose bounds depend on others."""
    return s.origin[:1] == ("loop",) and bool(s.origin[1].terms or s.origin[2].terms)


def is_fixed(fact: Linear) -> bool:
    """Whether a fact tells only of indices that have one value where it holds."""
    return all(is_plain(s) and s.low == s.high for s in fact.terms)


def exchanged(x: Linear, sums: dict[Symbol, Linear]) -> Iterable[Symbol]:
    """The symbols of a sum, where some are known to be sums of others."""
    for s in x.terms:
        if s in sums:
            yield from exchanged(sums[s], sums)
        else:
            yield s


def dividends(s: Symbol) -> Iterable[Linear]:
    """What a digit was divided from, and what that was."""
    while s.origin[:1] in (("div",), ("mod",)):
        x = s.origin[1]
        yield x
        if len(x.terms) != 1:
            return
        s = next(iter(x.terms))


def within(x: Linear) -> set[Symbol]:
    """The symbols of a sum, and those that its loops, minima, selects and quotients are made of."""
    inside: set[Symbol] = set()
    todo = list(x.terms)
    while todo:
        s = todo.pop()
        if s not in inside:
            inside.add(s)
            origin = s.origin
            if origin[:1] == ("select",):  # what it is chosen by, too
                origin = (*origin[1].when, *origin[1].unless, *origin)
            todo += [t for y in origin if isinstance(y, Linear) for t in y.terms]
    return inside


def part_of(s: Symbol) -> Part:
    """Which digit of what a symbol is."""
    if s.origin[:1] == ("div",):
        _, x, by = s.origin
        inner = _inner(x)
        if inner is not None:
            if inner.of is None:
                return Part(inner.base, inner.by * by, None)
            if inner.of % by == 0:
                return Part(inner.base, inner.by * by, inner.of // by)
        return Part(x.key(), by, None)
    if s.origin[:1] == ("mod",):
        _, x, by = s.origin
        inner = _inner(x)
        if inner is not None and (inner.of is None or inner.of % by == 0):
            return Part(inner.base, inner.by, by)
        return Part(x.key(), 1, by)
    return Part(s, 1, None)


def _inner(x: Linear) -> Part | None:
    if x.const == 0 and len(x.terms) == 1:
        s, c = next(iter(x.terms.items()))
        if c == 1:
            return part_of(s)
    return None


def is_divided(base: Any, x: Linear) -> bool:
    """Whether a sum has digits of a number, or is it only as a whole."""
    parts = [p for s in x.terms if (p := part_of(s)).base == base]
    return len(parts) > 1 or any(p.by > 1 or p.of is not None for p in parts)


def common_step(x: Linear, parts: Iterable[tuple[Part, Symbol, int]], boxes: Iterable[Box]) -> int:
    """A number that divides all values of a sum, so that its digits below that are 0, and are not
    missing where a store does not have them."""
    parts, boxes = list(parts), list(boxes)
    rest, step = x.residue()
    if not all(part.by % step == 0 or part.holds(step) for part, _, _ in parts if step):
        step = gcd(step, *[part.by for part, _, _ in parts])
    if step < 2 or rest % step:
        return 1
    starts = [b.start for b in boxes]
    strides = [d.stride for b in boxes for d in b.digits]
    return 1 if any(n % step for n in starts + strides) else step


def in_steps(b: Box, step: int) -> Box:
    """A box counted in steps that divide all of it."""
    digits = [d._replace(stride=d.stride // step) for d in b.digits]
    return Box(b.start // step, tuple(digits), b.step)
