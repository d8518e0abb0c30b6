"""Sums of symbols against all points that facts allow."""

from __future__ import annotations

import random
from itertools import product

from hloom.kernel.proof.linear import Linear, Symbol
from hloom.kernel.proof.search import _without, at_least_zero, is_attained, span


def drawn_sum(rng: random.Random, symbols: list[Symbol]) -> Linear:
    chosen = rng.sample(symbols, rng.randint(1, len(symbols)))
    return Linear(rng.randint(-6, 6), {s: rng.choice((-3, -2, -1, 1, 2, 3)) for s in chosen})


def value(x: Linear, point: dict[Symbol, int]) -> int:
    return x.const + sum(c * point[s] for s, c in x.terms.items())


def points(symbols: list[Symbol], facts: list[Linear]) -> list[dict[Symbol, int]]:
    """All values of symbols at which facts hold."""
    values = [range(s.low, s.high + 1, s.step) for s in symbols]
    found = [dict(zip(symbols, v)) for v in product(*values)]
    return [p for p in found if all(value(f, p) >= 0 for f in facts)]


def test_bounds_hold_at_all_points():
    rng = random.Random(9)
    reached = proved = 0
    for _ in range(1500):
        symbols = []
        for _ in range(3):
            low = rng.randint(-4, 2)
            symbols.append(Symbol(low, low + rng.randint(1, 6), rng.choice((1, 1, 2))))
        told = [drawn_sum(rng, symbols) for _ in range(rng.randint(0, 2))]
        own = [drawn_sum(rng, symbols) for _ in range(rng.randint(0, 2))]
        for fact in own:
            next(iter(fact.terms)).facts.append(fact)
        x = drawn_sum(rng, symbols)
        values = [value(x, p) for p in points(symbols, told + own)]
        if not values:
            continue
        low, high = span(x, told)
        assert low <= min(values) and max(values) <= high
        assert all(s.low == s.all[0] for s in symbols)  # what was narrowed is as it was
        if at_least_zero(x, told):
            proved += 1
            assert min(values) >= 0
        if is_attained(x, told):
            reached += 1
            of_facts = [s for f in told for s in f.terms] + list(x.terms)
            heard = told + [f for s in of_facts for f in s.facts]
            assert x.least() == min(value(x, p) for p in points(symbols, heard))
    assert proved > 100 and reached > 100


def test_the_bound_of_a_sum_less_a_fact_is_that_of_the_sum_when_it_is_built():
    rng = random.Random(5)
    found = 0
    for _ in range(500):
        symbols = [Symbol(low, low + rng.randrange(9)) for low in rng.choices(range(-6, 7), k=4)]
        x, fact = [
            Linear(rng.randint(-9, 9), {s: c for s in symbols if (c := rng.randint(-4, 4))})
            for _ in range(2)
        ]
        if (less := _without(x, x.least(), fact)) is not None:
            found += 1
            bound, factor = less
            assert factor > 0 and bound == x.plus(fact, -factor).least()
    assert found > 100
