"""Whether an offset is inside of a buffer: what is tried, what is likely first.

Intervals and facts as they are; what facts say of dividends, and as whole numbers; sums with a
quotient as one quotient; and, last, one case after another for each value of digits that have few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hloom.kernel.proof.linear import Linear, Symbol, undivided
from hloom.kernel.proof.parts import within
from hloom.kernel.proof.search import (
    LAST_TRIED,
    MOST_FACTS,
    MOST_TRIED,
    Narrowed,
    at_least_zero,
    greatest,
    greatest_quotient,
    lowest,
    lowest_quotient,
    multiples,
)

MOST_VALUES = 8
"""How many values a digit may have that an offset is looked at for each of."""
MOST_CASES = 100
"""In how many cases one offset is looked at."""


def unproved_bound(offset: Linear, size: int, scope: Sequence[Linear]) -> str:
    """Why an offset is not known to be inside of a buffer where facts hold, after all that may be
    tried; nothing if it is."""
    why = _unproved(offset, size, scope)
    if why and (more := [*of_truncated(offset, scope), *of_quotients(offset, scope)]):
        scope = [*scope, *more]
        why = _unproved(offset, size, scope)
    return "" if why and ForEachValue(offset, size, scope).is_inside() else why


def _unproved(offset: Linear, size: int, scope: Sequence[Linear]) -> str:
    """`unproved_bound` by what holds in all cases."""
    facts = [*scope, *[fact for s in offset.terms for fact in s.facts]]
    narrowed = Narrowed(facts)
    why = beyond(offset, size, scope) if narrowed.possible else ""
    if why and narrowed.quotients(offset, scope):
        why = beyond(offset, size, scope)
    if why:
        why = beyond(offset, size, scope, LAST_TRIED)
    if why and any(
        not beyond(put_back, size, scope, LAST_TRIED) for put_back in with_quotients(offset, scope)
    ):
        why = ""
    narrowed.undo()
    if why and len(scope) < MOST_FACTS and (more := [*of_dividends(scope), *rounded(scope)]):
        return _unproved(offset, size, [*scope, *more])
    return why


def doubted_bound(offset: Linear, size: int, scope: Sequence[Linear]) -> str:
    """As `unproved_bound`, after the first that is tried of all that may be."""
    narrowed = Narrowed([*scope, *[fact for s in offset.terms for fact in s.facts]])
    why = beyond(offset, size, scope) if narrowed.possible else ""
    narrowed.undo()
    return why


def rounded(scope: Sequence[Linear]) -> Iterator[Linear]:
    """What facts say of the terms whose coefficients have a common divisor, as whole numbers.

    Of `771 * r + 257 * c + g <= 2055` that `3 * r + c <= 7`, whatever g is; and that it is less
    where other facts say that g is more.
    """
    for fact in scope:
        for by in {abs(c) for c in fact.terms.values()} - {1}:
            few = {s: c for s, c in fact.terms.items() if c % by == 0}
            others = Linear(fact.const, {s: c for s, c in fact.terms.items() if s not in few})
            derived = Linear(greatest(others, scope), few).reduced()
            if not any(derived.equals(known) for known in scope):
                yield derived


def of_dividends(scope: Sequence[Linear]) -> Iterator[Linear]:
    """What facts that a sum with a quotient in it is at most or at least so much say of its
    dividend.

    `floor(w / d) <= 0` where `w <= d - 1`, and `floor(w / d) >= 0` where `w >= 0`.
    """
    for fact in scope:
        most = [y.whole.times(-1).shifted(y.divisor - 1) for y in undivided(fact.times(-1))]
        for derived in (*most, *[y.whole for y in undivided(fact)]):
            derived = derived.reduced()
            if not any(derived.equals(known) for known in scope):
                yield derived


def with_quotients(x: Linear, scope: Sequence[Linear]) -> Iterator[Linear]:
    """A sum with one quotient, and indices that were taken out of it as whole multiples of its
    divisor, as one number, which is bounded as what it is a quotient of.

    `3 * t + (t + l) div 2` is `(7 * t + l) div 2`, whatever is lost between the two terms.
    """
    for q, c in x.terms.items():
        if q.origin[:1] != ("div",):
            continue
        _, dividend, by = q.origin
        multiple = {s for s, k in x.terms.items() if k % c == 0 and s is not q}
        alone = multiple & dividend.terms.keys()
        # What bounds the indices of the dividend may be other indices: where a block of rows ends.
        related = multiple & {t for s in dividend.terms for fact in s.facts for t in fact.terms}
        for shared in (alone, alone | related) if related - alone else (alone,):
            if not shared:
                continue
            out = Linear(0, {s: x.terms[s] // c for s in x.terms if s in shared})
            whole = dividend.plus(out, by)
            low, high = lowest_quotient(whole, by, scope), greatest_quotient(whole, by, scope)
            run = Symbol(low, high)
            left = whole.plus(Linear(0, {run: -by}))
            run.facts += [left, left.times(-1).shifted(by - 1)]
            yield x.plus(out.plus(Linear(0, {q: 1})), -c).plus(Linear(0, {run: c}))


def is_inside(x: Linear, scope: Sequence[Linear], tried: int) -> bool:
    """Whether `x >= 0`, also where only a multiple of it can be told."""
    return at_least_zero(x, scope, tried) or any(
        lowest(x.times(by), scope) > -by for by in multiples(x)
    )


def beyond(offset: Linear, size: int, scope: Sequence[Linear], tried: int = MOST_TRIED) -> str:
    """Why an offset is not known to be inside of a buffer; nothing if it is."""
    if not is_inside(offset, scope, tried):
        return f"offset {offset} may be negative"
    if not is_inside(offset.times(-1).shifted(size - 1), scope, tried):
        return f"offset {offset} may reach {size}"
    return ""


def of_truncated(offset: Linear, scope: Sequence[Linear]) -> list[Linear]:
    """What divisions toward zero leave, where their dividends are known to have one sign here."""
    facts: list[Linear] = []
    divisions = [s for s in within(offset) if s.origin[:1] in (("truncated",), ("rest",))]
    while divisions:
        signed = [(s, sign) for s in divisions for sign in (1, -1) if _has_sign(s, sign, scope)]
        if not signed:
            break
        for s, sign in signed:
            _, dividend, by = s.origin
            itself = Linear(0, {s: sign})
            facts.append(itself)
            if s.origin[0] == "truncated":
                facts.append(dividend.times(sign).plus(itself, -by))
        divisions = [s for s in divisions if not any(s is t for t, _ in signed)]
        scope = [*scope, *facts]
    return facts


def _has_sign(s: Symbol, sign: int, scope: Sequence[Linear]) -> bool:
    return at_least_zero(s.origin[1].times(sign), scope)


def of_quotients(offset: Linear, scope: Sequence[Linear]) -> list[Linear]:
    """What facts of a dividend say of its quotient, with other numbers that go in steps.

    Where `t + l <= 51`, and t is a multiple of 16, `t + 4 * (l div 4)` is 48 at most.
    """
    derived: list[Linear] = []
    for q in offset.terms:
        if q.origin[:1] != ("div",):
            continue
        for fact in scope:
            for other in q.facts:
                s = next((s for s, c in other.terms.items() if c * fact.terms.get(s, 0) < 0), None)
                if s is None or s is q or fact.terms[s] % other.terms[s]:
                    continue
                both = fact.plus(other, -(fact.terms[s] // other.terms[s])).reduced()
                rest, modulus = both.residue()
                if modulus > 1 and not any(both.equals(known) for known in scope):
                    derived.append(both.shifted(-rest))
    return derived


class ForEachValue:
    """An offset, looked at for each value of digits that have few: what one value of one leaves
    of others is more than all its values do."""

    def __init__(self, offset: Linear, size: int, scope: Sequence[Linear]) -> None:
        self.offset, self.size, self.scope = offset, size, scope
        self.inside = within(offset)
        for fact in scope:
            self.inside |= within(fact)
        self.facts = [*scope, *[fact for s in self.inside for fact in s.facts]]
        self.left = MOST_CASES

    def is_inside(self) -> bool:
        """Whether the offset is known to be inside of its buffer."""
        if not self.left:
            return False
        self.left -= 1
        narrowed = Narrowed(self.facts)
        try:
            if not narrowed.possible:
                return True
            return not beyond(self.offset, self.size, self.scope) or self.in_cases()
        finally:
            narrowed.undo()

    def in_cases(self) -> bool:
        """`is_inside` for each value of the digit that has the fewest, of those of the offset
        itself if any of them has few."""
        related = {s for fact in self.facts for s in fact.terms}
        few = [s for s in related if 1 < s.count <= MOST_VALUES]
        if not few:
            return False
        s = min(few, key=lambda s: (s not in self.offset.terms, s.count))
        low, high = s.low, s.high
        try:
            for value in range(low, high + 1, s.step):
                s.low = s.high = value
                if not self.is_inside():
                    return False
            return True
        finally:
            s.low, s.high = low, high
