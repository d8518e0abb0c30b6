"""Bounds of sums that follow from intervals and facts.

`at_least_zero` proves that a sum is never negative: by the intervals, or by taking multiples of
facts away until the intervals suffice (a greedy Fourier-Motzkin elimination; the few facts of an
index rarely need more than one each). Most sums are bounded by their intervals alone, so it is
asked first whether a search could say more (`Linear.is_free`, `is_attained`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from hloom.kernel.proof.linear import Linear, Symbol, undivided

MOST_TRIED = 24
"""Sums that one proof may look at: what holds is found among the first few."""
LAST_TRIED = 200
"""As many again before an access is given up: of a window of several quotients four facts in turn
may be needed, each of which makes the bound worse until the last."""
MOST_CASES = 3
"""Minima and maxima that one proof may take apart."""
MOST_ROUNDS = 4
"""How often intervals are narrowed by what others have become."""
IMPOSSIBLE = 1 << 70
"""The bound where facts contradict one another: there is nothing to prove."""


def at_least_zero(x: Linear, scope: Iterable[Linear] = (), tried: int = MOST_TRIED) -> bool:
    """Whether `x >= 0` follows from intervals, from the facts of its symbols and from `scope`."""
    low = x.least()
    if low >= 0:
        return True
    symbols = list(scope)
    if not symbols and x.is_free:
        return False
    for s in x.terms:
        for fact in s.facts:
            other = _without(x, low, fact)
            if other is not None and other[0] >= 0:
                return True
    if is_attained(x, symbols):
        return False
    if least(x, symbols, 0, tried=tried) >= 0:
        return True
    return bool(symbols) and least(x, facts_of(symbols), 0, tried=tried) >= 0


def greatest(x: Linear, scope: Iterable[Linear] = ()) -> int:
    """A bound that `x` is never above."""
    return span(x, scope)[1]


def lowest(x: Linear, scope: Iterable[Linear] = ()) -> int:
    """A bound that `x` is never below."""
    return span(x, scope)[0]


def span(x: Linear, scope: Iterable[Linear] = ()) -> tuple[int, int]:
    """Bounds that `x` is never below or above; a search is made only where it may say more than
    the intervals do."""
    symbols = list(scope)
    if not symbols and x.is_free:
        return x.bounds()
    narrowed = Narrowed(symbols)
    if not narrowed.possible:
        low_high = IMPOSSIBLE, -IMPOSSIBLE
    elif x.is_free and all(f.is_free and len(f.terms) < 2 for f in symbols):
        low_high = x.bounds()  # each interval by itself is all that is known
    else:
        low, high = [
            y.least() if is_attained(y, symbols) else least(y, symbols) for y in (x, x.times(-1))
        ]
        low_high = low, -high
    narrowed.undo()
    return low_high


def is_attained(x: Linear, facts: list[Linear]) -> bool:
    """Whether a sum is known to have the least value that its intervals allow, as all facts hold
    at one point where it has: of two that are tried, the other symbols at one of their ends.

    Then no search can raise that bound. False means nothing.
    """
    terms = x.terms
    ends = {s: s.low if c > 0 else s.high for s, c in terms.items()}
    all_ = facts_of([*facts, *[fact for s in terms for fact in s.facts]])
    if len(all_) >= MOST_FACTS:
        return False
    symbols = dict.fromkeys([s for fact in all_ for s in fact.terms])
    for others in ({s: s.low for s in symbols}, {s: s.high for s in symbols}):
        point = others | ends
        if all(_at(fact, point) >= 0 for fact in all_) and all(
            point[s] in [_at(y, point) for y in s.origin[2:]]
            for s in point
            if s.origin[:1] == ("extreme",)
        ):
            return True
    return False


def _at(x: Linear, point: dict[Symbol, int]) -> int:
    """The value of a sum at a point."""
    total = x.const
    for s, c in x.terms.items():
        total += c * point[s]
    return total


def least(
    x: Linear,
    scope: Iterable[Linear] = (),
    enough: int | None = None,
    cases: int = MOST_CASES,
    tried: int = MOST_TRIED,
) -> int:
    """A bound that `x` is never below; the search ends when it is `enough`.

    Best first: of all sums that are `x` less multiples of facts, that with the greatest bound is
    looked at next. What that cannot show is tried once for each number that a minimum or maximum
    in it may be.
    """
    facts = list(scope)
    if any(not fact.terms and fact.const < 0 for fact in facts):
        return IMPOSSIBLE
    best = x.least()
    for s, c in x.terms.items():
        if enough is not None and s.origin[:1] == ("extreme",) and (c > 0) == (s.origin[1] > 0):
            rest = x.plus(Linear(0, {s: 1}), -c)
            if (low := min([rest.plus(y, c).least() for y in s.origin[2:]])) >= enough:
                return low
    inside = dict.fromkeys(s for fact in facts for s in fact.terms)
    open_ = [(best, x)]
    equal = [s.equal for s in inside if s.equal is not None]
    while division := next(
        ((z, y) for z in equal if (y := _exchanged(open_[-1][1], z)) is not None), None
    ):
        equal.remove(division[0])  # each division once
        open_.append((division[1].least(), division[1]))
    if tried > MOST_TRIED:  # first what is told here, however much worse it makes the bound
        more = [(y, fact, _without(y, low, fact)) for low, y in open_ for fact in facts]
        open_ += [(z[0], y.plus(fact, -z[1])) for y, fact, z in more if z is not None]
    seen = {y.key() for _, y in open_}
    best = max([low for low, _ in open_])
    facts += [fact for s in inside for fact in s.facts]
    by_symbol = _by_symbol(facts)
    # Less the bound, less the place: of equals the last.
    queue: list[tuple[int, int, int, Linear]] = []
    for number in range(len(open_) + tried):
        if (enough is not None and best >= enough) or (number >= len(open_) and not queue):
            break
        low, current = open_[number] if number < len(open_) else heappop(queue)[2:]
        mine = [fact for s in current.terms if s not in inside for fact in s.facts]
        for fact in (*_sharing(current, by_symbol), *mine):
            lower = _without(current, low, fact)
            if lower is None:
                continue
            other = current.plus(fact, -lower[1])
            if (key := other.key()) not in seen:
                seen.add(key)
                best = max(best, lower[0])
                heappush(queue, (-lower[0], -len(seen), lower[0], other))
    if cases and (enough is None or best < enough):
        for s, c in x.terms.items():
            if s.origin[:1] == ("extreme",) and (c > 0) == (s.origin[1] > 0):
                rest = x.plus(Linear(0, {s: 1}), -c)
                both = [rest.plus(y, c) for y in s.origin[2:]]
                return max(best, min(least(y, facts, enough, cases - 1, tried) for y in both))
    return best


MOST_FACTS = 60
"""Facts that one proof takes from the symbols of others."""


def facts_of(stated: Iterable[Linear]) -> list[Linear]:
    """Facts, those of their symbols, and so on."""
    facts = list(stated)
    known = {id(fact) for fact in facts}
    for fact in facts:  # which grows
        for s in fact.terms:
            for other in s.facts:
                if id(other) not in known and len(facts) < MOST_FACTS:
                    known.add(id(other))
                    facts.append(other)
    return facts


MOST_MULTIPLES = 3


def multiples(x: Linear) -> list[int]:
    """By what to multiply a sum to have multiples of what its quotients were divided from.

    Of whole numbers `x > -1` where `k * x > -k`: facts that tell of a dividend bound `x` so.
    """
    divisors = dict.fromkeys([s.origin[2] for s in x.terms if s.origin[:1] == ("div",)])
    return list(divisors)[:MOST_MULTIPLES]


BySymbol = dict[Symbol, list[tuple[int, int, Linear]]]
"""Of each symbol its coefficient in every fact that has it, with the place of the fact."""


def _by_symbol(facts: list[Linear]) -> BySymbol:
    by_symbol: BySymbol = {}
    for place, fact in enumerate({id(fact): fact for fact in facts}.values()):
        for s, f in fact.terms.items():
            by_symbol.setdefault(s, []).append((place, f, fact))
    return by_symbol


def _sharing(x: Linear, by_symbol: BySymbol) -> list[Linear]:
    """The facts of which a multiple rids `x` of a symbol, in their order: one in five."""
    facts = {
        place: fact
        for s, c in x.terms.items()
        for place, f, fact in by_symbol.get(s, ())
        if c * f > 0 and c % f == 0
    }
    return [facts[place] for place in sorted(facts)]


def _exchanged(x: Linear, zero: Linear) -> Linear | None:
    """`x` with a multiple of what is zero added that rids it of the dividend of a division."""
    s, f = next(iter(zero.terms.items()))
    c = x.terms.get(s, 0)
    return x.plus(zero, -(c // f)) if c and c % f == 0 else None


def _without(x: Linear, low: int, fact: Linear) -> tuple[int, int] | None:
    """The bound of `x`, whose own is `low`, less a positive multiple of the fact that rids it of a
    symbol, and the multiple; None if there is none.

    The one that leaves the greatest bound, of those for each symbol that they share.
    """
    best: tuple[int, int] | None = None
    last = 0
    terms, others = x.terms, fact.terms
    for s, f in others.items():
        c = terms.get(s, 0)
        if c * f <= 0 or c % f or c // f == last:
            continue
        last = c // f  # most symbols ask for the same multiple
        bound = low - last * fact.const
        for t, g in others.items():  # no other symbol counts for more or less than in `x`
            before = terms.get(t)
            if before is None:
                bound -= last * g * (t.high if g > 0 else t.low)
                continue
            after = before - last * g
            bound += after * (t.low if after > 0 else t.high)
            bound -= before * (t.low if before > 0 else t.high)
        if best is None or bound > best[0]:
            best = bound, last
    return best


def greatest_quotient(x: Linear, by: int, scope: Sequence[Linear]) -> int:
    """A bound that `floor(x / by)` is never above, by multiples of x and by the numbers that x is
    itself a quotient of, too."""
    high = greatest(x, scope)
    for k in multiples(x):
        high = min(high, greatest(x.times(k), scope) // k)
    high //= by
    for y in undivided(x):
        high = min(high, greatest(y.whole, scope) // (y.divisor * by))
    return high


def lowest_quotient(x: Linear, by: int, scope: Sequence[Linear]) -> int:
    """A bound that `floor(x / by)` is never below, likewise."""
    low = lowest(x, scope)
    for k in multiples(x):
        low = max(low, -(-lowest(x.times(k), scope) // k))
    low //= by
    for y in undivided(x):
        low = max(low, lowest(y.whole, scope) // (y.divisor * by))
    return low


class Narrowed:
    """The intervals of symbols narrowed to what facts leave of them, until `undo`.

    Bounds propagation: of `c * s + rest >= 0` the greatest value of the rest bounds s, rounded to
    a whole number. `possible` is False where no value is left, so that the facts never hold.
    """

    def __init__(self, facts: Iterable[Linear]) -> None:
        self.before: dict[Symbol, tuple[int, int]] = {}
        self.possible = True
        self.changed: set[Symbol] = set()
        todo = facts_of(facts)
        for fact in todo:
            self._narrow(fact)
        for _ in range(MOST_ROUNDS - 1):  # what may say more since others were narrowed
            if not self.changed:
                break
            recent, self.changed = self.changed, set()
            for fact in todo:
                if not (recent.isdisjoint(fact.terms) and self.changed.isdisjoint(fact.terms)):
                    self._narrow(fact)

    def _narrow(self, fact: Linear) -> None:
        """Narrow what one fact bounds."""
        high = fact.const
        for s, c in fact.terms.items():
            high += c * (s.high if c > 0 else s.low)
        if high < 0:
            self.possible = False
            return
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
                self.changed.add(s)

    def quotients(self, x: Linear, scope: Sequence[Linear]) -> bool:
        """Narrow the quotients in a sum by what facts say of their dividends; whether any was."""
        changed = False
        for s in x.terms:
            if s.origin[:1] == ("div",):
                _, dividend, by = s.origin
                low = max(lowest_quotient(dividend, by, scope), s.low)
                high = min(greatest_quotient(dividend, by, scope), s.high)
                low += -(low - s.low) % s.step
                if (s.low, s.high) != (low, high) and low <= high:
                    self.before.setdefault(s, (s.low, s.high))
                    s.low, s.high, changed = low, high, True
        return changed

    def undo(self) -> None:
        for s, (low, high) in self.before.items():
            s.low, s.high = low, high
