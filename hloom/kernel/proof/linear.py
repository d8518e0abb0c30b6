"""Integers of a kernel as sums of symbols: what is known of an index without running anything.

A `Linear` is `const + sum(coefficient * symbol)`. A `Symbol` stands for one number in one step, one
iteration and one lane; its interval and its residue (all its values are `low` plus multiples of
`step`) bound it, and facts (`Linear >= 0`) relate it to others: what a loop counts up to, of which
numbers a minimum was taken, what a quotient leaves. `search.py` proves bounds of sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Any, NamedTuple


class Symbol:
    """An unknown: `low <= value <= high`, `value = low + k * step`.

    `origin` says what it is: ("grid", axis), ("lane", axis, size), ("loop", lower, upper, step),
    ("div", x, by), ("mod", x, by) or () for data. `uniform` is whether it is the same number in
    every step of the grid, every iteration and every lane. `equal` is a sum that is zero: what a
    remainder has to do with the quotient of the same division. `all` are its least value and
    how many it had when it was made, before anything narrowed it. `tight` is whether it was known
    then to have both ends of its interval in spite of its facts.
    """

    __slots__ = ("all", "equal", "facts", "high", "low", "origin", "step", "tight", "uniform")

    def __init__(
        self,
        low: int,
        high: int,
        step: int = 1,
        origin: tuple[Any, ...] = (),
        uniform: bool = False,
    ) -> None:
        self.low = low
        self.high = high - (high - low) % step if step > 1 else high
        self.step = step
        self.origin = origin
        self.uniform = uniform
        self.all = (low, (self.high - low) // step + 1)
        self.tight = False
        self.facts: list[Linear] = []
        self.equal: Linear | None = None

    @property
    def count(self) -> int:
        """How many values it may have."""
        return (self.high - self.low) // self.step + 1

    def tell(self, *facts: Linear) -> None:
        """Add facts, all of them or, where the first is known, none."""
        if not any(facts[0].equals(known) for known in self.facts):
            self.facts += facts

    def __repr__(self) -> str:
        kind = self.origin[0] if self.origin else "data"
        return f"{kind}[{self.low}..{self.high}]"


class Linear:
    """`const + sum(coefficient * symbol)`; never changed once it is made."""

    __slots__ = ("const", "terms")

    def __init__(self, const: int, terms: dict[Symbol, int] | None = None) -> None:
        self.const = const
        self.terms: dict[Symbol, int] = terms or {}

    def __repr__(self) -> str:
        return " + ".join([*[f"{c}*{s!r}" for s, c in self.terms.items()], str(self.const)])

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """`self + factor * other`."""
        const = self.const + factor * other.const
        if not other.terms:
            return Linear(const, self.terms)
        if not self.terms and factor == 1:
            return Linear(const, other.terms)
        terms = self.terms.copy()
        for s, c in other.terms.items():
            before = terms.get(s)
            if before is None:
                if factor:
                    terms[s] = factor * c
            elif total := before + factor * c:
                terms[s] = total
            else:
                del terms[s]
        return Linear(const, terms)

    def shifted(self, by: int) -> Linear:
        return Linear(self.const + by, self.terms) if by else self

    def times(self, factor: int) -> Linear:
        if factor == 1:
            return self
        if factor == 0:
            return Linear(0)
        return Linear(self.const * factor, {s: c * factor for s, c in self.terms.items()})

    def reduced(self) -> Linear:
        """A sum that is at least zero just where this one is, with coefficients as small as can
        be: of whole numbers `6 * a - 7 >= 0` says that `a - 2 >= 0`."""
        by = gcd(*self.terms.values())
        if by < 2:
            return self
        return Linear(self.const // by, {s: c // by for s, c in self.terms.items()})

    def with_sum(self, part: Linear, run: Symbol) -> Linear:
        """The sum with a symbol in place of others that it stands for, if it has those."""
        s, c = next(iter(part.terms.items()))
        times = self.terms.get(s, 0) // c
        other = self.plus(part, -times).plus(Linear(0, {run: 1}), times)
        return other if times and not any(t in other.terms for t in part.terms) else self

    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value that the intervals of its symbols allow."""
        low = high = self.const
        for s, c in self.terms.items():
            if c > 0:
                low += c * s.low
                high += c * s.high
            else:
                low += c * s.high
                high += c * s.low
        return low, high

    def least(self) -> int:
        low = self.const
        for s, c in self.terms.items():
            low += c * (s.low if c > 0 else s.high)
        return low

    def key(self) -> tuple[int, frozenset[tuple[Symbol, int]]]:
        """Equal for equal sums."""
        return self.const, frozenset(self.terms.items())

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def is_uniform(self) -> bool:
        return all(s.uniform for s in self.terms)

    @property
    def is_free(self) -> bool:
        """Whether its symbols have no facts, so that intervals say all that is known of it."""
        for s in self.terms:
            if s.facts:
                return s.tight and len(self.terms) == 1
        return True

    def equals(self, other: Linear) -> bool:
        return self.const == other.const and self.terms == other.terms

    def residue(self) -> tuple[int, int]:
        """`(r, m)`: every value is `r` plus a multiple of `m`; m is 0 for a constant."""
        rest, modulus = self.const, 0
        for s, c in self.terms.items():
            rest += c * s.low
            modulus = gcd(modulus, c * s.step)
        return (rest % modulus if modulus else rest), modulus


def of_symbol(s: Symbol) -> Linear:
    """The symbol itself; a number if it has one value only."""
    return Linear(s.low) if s.low == s.high else Linear(0, {s: 1})


def single(x: Linear) -> tuple[Symbol, int] | None:
    """The symbol and its coefficient, where there is just one."""
    return next(iter(x.terms.items())) if len(x.terms) == 1 else None


class Undivided(NamedTuple):
    """`whole`, of which a sum is the quotient by `divisor`; it is equal to `lower` modulo `by`."""

    whole: Linear
    divisor: int
    lower: Linear
    by: int


def undivided(x: Linear) -> Iterator[Undivided]:
    """Numbers that a sum with a quotient in it is a quotient of.

    Of whole numbers `r + floor(d / b) = floor((b * r + d) / b)`, and again where there is a
    quotient in that. Of several quotients the one whose dividend has the others in it is taken
    apart, where those that lose nothing may stand beside it as numbers: in
    `t div 2 + (g + l) div 2`, t even, all that is lost is of `g + l`. The others then count more
    than once and are not taken apart, and each that is lies within the one before, so that there
    is an end.
    """
    divisor = 1
    while True:
        divisions = [s for s, c in x.terms.items() if c == 1 and s.origin[:1] == ("div",)]
        if len(divisions) > 1:
            divisions = [s for s in divisions if not _is_exact(s)] or divisions
            divisions = [s for s in divisions if all(_is_made_of(s, t) for t in divisions)]
        if len(divisions) != 1:
            return
        _, lower, by = divisions[0].origin
        x = x.plus(Linear(0, {divisions[0]: 1}), -1).times(by).plus(lower)
        divisor *= by
        yield Undivided(x, divisor, lower, by)


def _is_exact(quotient: Symbol) -> bool:
    """Whether a division leaves the same remainder always."""
    _, dividend, by = quotient.origin
    return dividend.residue()[1] % by == 0


def _is_made_of(quotient: Symbol, inner: Symbol) -> bool:
    """Whether a symbol is a quotient, or in what it, or a quotient in that, was divided from."""
    todo = [quotient]
    for s in todo:  # which grows
        if s is inner:
            return True
        if s.origin[:1] in (("div",), ("mod",)):
            todo += [t for t in s.origin[1].terms if t not in todo]
    return False
