"""Digits of different sums that are digits of one number.

An index `12 * x + l` may be taken apart as `(4 * x + l) mod 8` and `x + (4 * x + l) div 8`, from
which its other digits are made: what each of these sums counts has gaps, the number has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hloom.kernel.proof.linear import Linear, Symbol, undivided
from hloom.kernel.proof.parts import Part, Parts, dividends, is_fixed, is_open, part_of, within
from hloom.kernel.proof.windows import is_bound

Groups = dict[Any, Parts]


def join(groups: Groups, facts: list[Linear]) -> dict[Any, Linear]:
    """Put digits of a sum with a quotient in it, and the digits that lie below it in the number
    that the sum is a quotient of, under that number; the numbers that were made, by key.

    Not where a fact tells of any of it: what it bounds would no longer be seen. Seen are that an
    index has one value, and bounds of a number as it is in the end.
    """
    told = [fact for fact in facts if not is_fixed(fact)]
    joined = dict(groups)
    dividends = _joined(joined, [])
    numbers = [(x, joined[key]) for key, x in dividends.items() if key in joined]
    if any(_is_told(x, [s for _, s, _ in parts], told) for x, parts in numbers):
        return _joined(groups, told)
    groups.clear()
    groups.update(joined)
    return dividends


def _joined(groups: Groups, told: list[Linear]) -> dict[Any, Linear]:
    """`join`, as far as no fact tells of what is joined."""
    dividends: dict[Any, Linear] = {}
    while pair := _below(groups, dividends):
        base, below, whole, divisor = pair
        key = whole.key()
        if _is_told(whole, [s for k in (base, below, key) for _, s, _ in groups.get(k, [])], told):
            break
        upper = [(p._replace(by=p.by * divisor), s, c) for p, s, c in groups.pop(base)]
        moved = [*upper, *groups.pop(below), *groups.pop(key, [])]
        groups[key] = [(p._replace(base=key), s, c) for p, s, c in moved]
        dividends[key] = whole
    return dividends


def _is_told(whole: Linear, digits: list[Symbol], told: list[Linear]) -> bool:
    """Whether a fact tells of a number, or of its digits, but that it bounds a number which is a
    sum: `Dividend.window` goes by that."""
    bounds = [f for f in told if not (len(f.terms) > 1 and is_bound(f, whole))]
    if not bounds:
        return False
    bound_together = within(Linear(0, {s: 1 for fact in bounds for s in fact.terms}))
    return bool(bound_together & (set(digits) | within(Linear(0, dict.fromkeys(digits, 1)))))


def absorb(
    groups: Groups,
    joined: dict[Any, Linear],
    inner: dict[Any, list[Linear]],
    facts: list[Linear],
    settled: Callable[[Linear], Linear],
) -> dict[Any, Linear]:
    """Put indices that whole quotients of were taken out of a sum before it was divided back into
    it, and what is known of its own; the numbers that were made, by key.

    `8 * x + l` may be taken apart as `(2 * x + l) mod 3` and `2 * x + (2 * x + l) div 3`. Facts
    of the sum become those of the indices of the number (`inner`).
    """
    bound_bases = {part_of(s).base for fact in facts for s in fact.terms}
    absorbed: dict[Any, Linear] = {}
    for base, parts in list(groups.items()):
        if isinstance(base, Symbol) or base in bound_bases:
            continue
        before = dividend_of(base, parts, joined)
        x = settled(before)
        top = max(parts, key=lambda p: p[0].by)
        if top[0].of is None and _is_below([p for p in parts if p is not top], top[0].by):
            made_of = x.terms.keys() | within(Linear(0, dict.fromkeys(filter(is_open, x.terms), 1)))
            shared = [s for s in made_of if s in groups and groups[s][0][0] == Part(s, 1, None)]
            shares = [groups[s][0][2] for s in shared]
            if not any(c % top[2] for c in shares):
                for s, c in zip(shared, shares):
                    x = x.plus(Linear(0, {s: c // top[2] * top[0].by}))
                    del groups[s]
        if x is not before and x.terms:
            key = x.key()
            moved = [(p._replace(base=key), s, c) for p, s, c in groups.pop(base)]
            groups[key] = groups.get(key, []) + moved
            inner[key] = (
                inner.get(key, []) + inner.pop(base, []) + [f for f in facts if is_bound(f, before)]
            )
            absorbed[key] = x
    return absorbed


def dividend_of(base: Any, parts: Parts, joined: dict[Any, Linear]) -> Linear:
    """The sum that has a key."""
    return joined.get(base) or next(p for p in dividends(parts[0][1]) if p.key() == base)


def _below(groups: Groups, dividends: dict[Any, Linear]) -> tuple[Any, Any, Linear, int] | None:
    """A sum to be joined, what holds the digits below it, and the number with its divisor."""
    pairs = []
    for base, parts in groups.items():
        if isinstance(base, Symbol):
            continue
        x = dividend_of(base, parts, dividends)
        for y in undivided(x):
            below = _name(y.lower)
            if below in groups and below != base and _is_below(groups[below], y.by):
                pairs.append((base, below, y.whole, y.divisor))
                break
    lower = {f[1] for f in pairs}
    # The uppermost first: what it is joined to has the others below it.
    return next((f for f in pairs if f[0] not in lower), None)


def _name(x: Linear) -> Any:
    """The base of the digits of a sum; of a symbol by itself that is the symbol."""
    if not x.const and len(x.terms) == 1:
        s, c = next(iter(x.terms.items()))
        if c == 1:
            return s
    return x.key()


def _is_below(parts: Parts, divisor: int) -> bool:
    """Whether digits are the same of all numbers that are equal modulo a divisor."""
    return all(p.of is not None and divisor % (p.by * p.of) == 0 for p, _, _ in parts)
