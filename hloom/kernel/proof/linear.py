"""Integers of a kernel as sums of symbols: what is known of an index without running anything.

A `Linear` is `const + sum(coefficient * symbol)`. A `Symbol` stands for one number in one step, one
iteration and one lane; its interval and its residue (all its values are `low` plus multiples of
`step`) bound it, and facts (`Linear >= 0`) relate it to others: what a loop counts up to, of which
numbers a minimum was taken, what a quotient leaves. `at_least_zero` proves that a sum is never
negative: by the intervals, or by taking multiples of facts away until the intervals suffice (a
greedy Fourier-Motzkin elimination; the few facts of an index rarely need more than one each).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Any


class Symbol:
    """An unknown: `low <= value <= high`, `value = low + k * step`.

    `origin` says what it is: ("grid", axis), ("lane", axis, size), ("loop", lower, upper, step),
    ("div", x, by), ("mod", x, by) or () for data. `uniform` is whether it is the same number in
    every step of the grid, every iteration and every lane. `equal` is a sum that is zero: what a
    remainder has to do with the quotient of the same division. `all` are its least value and
    how many it had when it was made, before anything narrowed it.
    """

    __slots__ = ("all", "equal", "facts", "high", "low", "origin", "step", "uniform")

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
        self.all = (low, self.count)
        self.facts: list[Linear] = []
        self.equal: Linear | None = None

    @property
    def count(self) -> int:
        """How many values it may have."""
        return (self.high - self.low) // self.step + 1

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
        terms = dict(self.terms)
        for s, c in other.terms.items():
            total = terms.get(s, 0) + factor * c
            if total:
                terms[s] = total
            else:
                terms.pop(s, None)
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


MOST_TRIED = 24
"""Sums that one proof may look at: what holds is found among the first few."""
MOST_CASES = 3
"""Minima and maxima that one proof may take apart."""
MOST_ROUNDS = 4
"""How often intervals are narrowed by what others have become."""
IMPOSSIBLE = 1 << 70
"""The bound where facts contradict one another: there is nothing to prove."""


def at_least_zero(x: Linear, scope: Iterable[Linear] = ()) -> bool:
    """Whether `x >= 0` follows from intervals, from the facts of its symbols and from `scope`."""
    if x.least() >= 0 or least(x, scope, 0) >= 0:
        return True
    told = list(scope)
    return bool(told) and least(x, facts_of(told), 0) >= 0


def greatest(x: Linear, scope: Iterable[Linear] = ()) -> int:
    """A bound that `x` is never above."""
    return -least(x.times(-1), scope)


def least(
    x: Linear, scope: Iterable[Linear] = (), enough: int | None = None, cases: int = MOST_CASES
) -> int:
    """A bound that `x` is never below; the search ends when it is `enough`.

    Best first: of all sums that are `x` less multiples of facts, that with the greatest bound is
    looked at next. What that cannot show is tried once for each number that a minimum or maximum
    in it may be.
    """
    given = list(scope)
    if any(not fact.terms and fact.const < 0 for fact in given):
        return IMPOSSIBLE
    best = x.least()
    inside = dict.fromkeys(s for fact in given for s in fact.terms)
    open_ = [(best, x)]
    equal = [s.equal for s in inside if s.equal is not None]
    while found := next(
        ((z, y) for z in equal if (y := _exchanged(open_[-1][1], z)) is not None), None
    ):
        equal.remove(found[0])  # each division once
        open_.append((found[1].least(), found[1]))
    seen = {y.key() for _, y in open_}
    best = max([low for low, _ in open_])
    given += [fact for s in inside for fact in s.facts]
    seeds = len(open_)
    for number in range(seeds + MOST_TRIED):
        if (enough is not None and best >= enough) or not open_:
            break
        at = 0 if number < seeds else max(range(len(open_)), key=lambda k: (open_[k][0], k))
        current = open_.pop(at)[1]
        for fact in [*given, *[fact for s in current.terms for fact in s.facts]]:
            other = _without(current, fact)
            if other is not None and (key := other.key()) not in seen:
                seen.add(key)
                low = other.least()
                best = max(best, low)
                open_.append((low, other))
    if cases and (enough is None or best < enough):
        for s, c in x.terms.items():
            if s.origin[:1] == ("extreme",) and (c > 0) == (s.origin[1] > 0):
                rest = x.plus(Linear(0, {s: 1}), -c)
                both = [rest.plus(y, c) for y in s.origin[2:]]
                return max(best, min(least(y, given, enough, cases - 1) for y in both))
    return best


MOST_FACTS = 60
"""Facts that one proof takes from the symbols of others."""


def facts_of(given: Iterable[Linear]) -> list[Linear]:
    """Facts, those of their symbols, and so on."""
    found = list(given)
    known = {id(fact) for fact in found}
    for fact in found:  # which grows
        for s in fact.terms:
            for other in s.facts:
                if id(other) not in known and len(found) < MOST_FACTS:
                    known.add(id(other))
                    found.append(other)
    return found


def _exchanged(x: Linear, zero: Linear) -> Linear | None:
    """`x` with a multiple of what is zero added that rids it of the dividend of a division."""
    s, f = next(iter(zero.terms.items()))
    c = x.terms.get(s, 0)
    return x.plus(zero, -(c // f)) if c and c % f == 0 else None


def _without(x: Linear, fact: Linear) -> Linear | None:
    """`x` less a positive multiple of the fact that rids it of a symbol; None if there is none.

    The one that leaves the greatest bound, of those for each symbol that they share.
    """
    best: Linear | None = None
    low = 0
    for s, f in fact.terms.items():
        c = x.terms.get(s, 0)
        if c * f <= 0 or c % f:
            continue
        other = x.plus(fact, -(c // f))
        bound = other.least()
        if best is None or bound > low:
            best, low = other, bound
    return best


class Narrowed:
    """The intervals of symbols narrowed to what facts leave of them, until `undo`.

    Bounds propagation: of `c * s + rest >= 0` the greatest value of the rest bounds s, rounded to
    a whole number. `possible` is False where no value is left, so that the facts never hold.
    """

    def __init__(self, facts: Iterable[Linear]) -> None:
        self.before: dict[Symbol, tuple[int, int]] = {}
        self.possible = True
        todo = facts_of(facts)
        for _ in range(MOST_ROUNDS):
            changed = [self._narrow(fact) for fact in todo]
            if not any(changed):
                break

    def _narrow(self, fact: Linear) -> bool:
        """Narrow what one fact bounds; whether anything changed."""
        high = fact.const
        for s, c in fact.terms.items():
            high += c * (s.high if c > 0 else s.low)
        if high < 0:
            self.possible = False
            return False
        changed = False
        for s, c in fact.terms.items():
            room = high // abs(c)  # how far s may be from the end that makes the fact hold best
            if room >= s.high - s.low:
                continue
            low, top = (s.high - room, s.high) if c > 0 else (s.low, s.low + room)
            low += -(low - s.low) % s.step
            top -= (top - s.low) % s.step
            if (low, top) != (s.low, s.high):
                self.before.setdefault(s, (s.low, s.high))
                # The other symbols' room was counted with the end that stays as it is.
                s.low, s.high = low, top
                changed = True
        return changed

    def quotients(self, x: Linear, scope: Iterable[Linear]) -> bool:
        """Narrow the quotients in a sum by what facts say of their dividends; whether any was."""
        changed = False
        for s in x.terms:
            if s.origin[:1] == ("div",):
                _, dividend, by = s.origin
                high = greatest(dividend, scope) // by
                if s.low <= high < s.high:
                    self.before.setdefault(s, (s.low, s.high))
                    s.high, changed = high, True
        return changed

    def undo(self) -> None:
        for s, (low, high) in self.before.items():
            s.low, s.high = low, high
