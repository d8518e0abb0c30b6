"""Runs of thunks that need not wait for each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from hloom.program.thunks.thunk import (
    Nested,
    Rates,
    Thunk,
    Use,
    sequence_elapsed_ns,
    sequence_ns,
    thunk_kind,
)


class Run(NamedTuple):
    """Thunks with no wait between them."""

    thunks: tuple[Thunk, ...]
    waits: tuple[int, ...]
    """The runs, all of them before it, that have to end before it begins."""
    stream: int
    """Runs of one stream follow each other."""


@thunk_kind
@dataclass(frozen=True, eq=False)
class Concurrent(Thunk):
    """Execute runs, each as soon as those have ended that it waits for.

    One after another they are a valid order too. What is said of a run's waits is enough: whatever
    two runs have in common, one of them waits for the other, if need be through further runs.
    """

    kind = "Concurrent"
    runs: tuple[Run, ...]

    @property
    def streams(self) -> int:
        """How many runs may be under way at once."""
        return len({run.stream for run in self.runs})

    def uses(self) -> tuple[Use, ...]:
        return ()

    def particulars(self) -> str:
        return f", {len(self.runs)} runs on {self.streams} streams"

    def serial_ns(self, rates: Rates) -> float:
        return sum([sequence_ns(run.thunks, rates) for run in self.runs])

    def elapsed_ns(self, rates: Rates, units: int) -> float:
        ends: list[float] = []
        work = 0.0
        for run in self.runs:
            begin = max([ends[w] for w in run.waits], default=0.0)
            ends.append(begin + sequence_elapsed_ns(run.thunks, rates, units))
            work += sequence_elapsed_ns(run.thunks, rates, 1)
        return max(*ends, work / units)

    def nested(self) -> tuple[Nested, ...]:
        return tuple([Nested(self._title(k), run.thunks) for k, run in enumerate(self.runs)])

    def _title(self, number: int) -> str:
        run = self.runs[number]
        after = f", after {' '.join(map(str, run.waits))}" if run.waits else ""
        return f"run {number} on stream {run.stream}{after}"

    def with_nested(self, parts: Sequence[tuple[Thunk, ...]]) -> Thunk:
        runs = [run._replace(thunks=part) for run, part in zip(self.runs, parts, strict=True)]
        return replace(self, runs=tuple(runs))
