"""How things are measured: contestants take turns, and the median of the rounds counts.

A contest is a named measurement with one or more contestants (hloom, and peers that happen to be
installed). Each contestant is a function that measures once and returns a number in the contest's
unit. Rounds are interleaved, hloom then peer then hloom, so that a machine that slows down slows
down both; preparing inputs and warming up is done before the first round and never counted.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Measure = Callable[[], float]
Contestants = dict[str, Measure]


@dataclass(frozen=True)
class Goal:
    """What a number must be: at least or at most `bound`."""

    bound: float
    at_least: bool

    def met_by(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:,g}"


@dataclass(frozen=True)
class Contest:
    """One line of the table: `prepare` makes the contestants; it may return none to skip."""

    name: str
    unit: str
    prepare: Callable[[], Contestants]
    more_is_better: bool
    goal: Goal | None = None

    @property
    def doc(self) -> str:
        return (self.prepare.__doc__ or "").strip().split("\n")[0]


@dataclass(frozen=True)
class Outcome:
    """What one contestant of one contest measured, in the contest's unit."""

    contest: str
    contestant: str
    unit: str
    median: float
    low: float
    high: float
    rounds: int
    more_is_better: bool
    goal: str
    met: bool | None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


CONTESTS: dict[str, Contest] = {}


def contest(
    name: str, unit: str, *, at_least: float | None = None, at_most: float | None = None
) -> Callable[[Callable[[], Contestants]], Contest]:
    """Register a contest under `name`; a unit that ends in `/s` is better when larger."""

    def make(prepare: Callable[[], Contestants]) -> Contest:
        if name in CONTESTS:
            raise ValueError(f"two contests are named {name}")
        bound = at_most if at_least is None else at_least
        goal = None if bound is None else Goal(bound, at_least is not None)
        CONTESTS[name] = Contest(name, unit, prepare, unit.endswith("/s"), goal)
        return CONTESTS[name]

    return make


def seconds(work: Callable[[], object]) -> Measure:
    """Measures how long `work` takes, in seconds; the garbage of others is collected before."""

    def once() -> float:
        gc.collect()
        start = time.perf_counter()
        kept = work()
        took = time.perf_counter() - start
        del kept  # freeing the result is not part of the work
        return took

    return once


def rate(amount: float, work: Callable[[], object]) -> Measure:
    """Measures how many of `amount` things `work` does in a second."""
    once = seconds(work)
    return lambda: amount / once()


def interleaved(contestants: Contestants, rounds: int, budget_s: float) -> dict[str, list[float]]:
    """Measure all in turn, after one uncounted round; fewer rounds when they take too long."""
    values: dict[str, list[float]] = {name: [] for name in contestants}
    for measure in contestants.values():
        measure()
    start = time.perf_counter()
    for done in range(rounds):
        if done and time.perf_counter() - start > budget_s:
            break
        for name, measure in contestants.items():
            values[name].append(measure())
    return values


def outcomes(which: Contest, rounds: int, budget_s: float) -> Iterator[Outcome]:
    """Run one contest."""
    for name, values in interleaved(which.prepare(), rounds, budget_s).items():
        median = statistics.median(values)
        ours = name == "hloom"
        yield Outcome(
            contest=which.name,
            contestant=name,
            unit=which.unit,
            median=median,
            low=min(values),
            high=max(values),
            rounds=len(values),
            more_is_better=which.more_is_better,
            goal=str(which.goal or "") if ours else "",
            met=which.goal.met_by(median) if ours and which.goal else None,
        )


def copy_seconds(bytes_moved: int) -> float:
    """Seconds in which memory reads one half of these bytes and writes the other, the best of 4."""
    source = np.ones(max(1, bytes_moved // 2), np.uint8)
    target = np.empty_like(source)
    return min([seconds(lambda: np.copyto(target, source))() for _ in range(4)])
