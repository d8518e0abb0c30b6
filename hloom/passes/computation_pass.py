"""Passes that edit one computation after the other; what they leave out of order is mended."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from hloom.ir.computation import Computation
from hloom.ir.module import Module
from hloom.ir.order import repair_schedules
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads
from hloom.rewrite.driver import Trace


class ComputationPass(Pass):
    """A pass whose `edit` is called for each computation, callees before callers."""

    callers_first: ClassVar[bool] = False

    @abstractmethod
    def edit(self, c: Computation, fired: Counter[str]) -> Iterable[Computation]:
        """Change `c` and count in `fired` what was done; gives the computations that changed."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        changed: dict[Computation, None] = {}
        computations = list(on_threads(module, threads))
        for c in reversed(computations) if self.callers_first else computations:
            changed.update(dict.fromkeys(self.edit(c, fired)))
        settle(module, changed)
        return PassResult.of(+fired)


def settle(module: Module, changed: Iterable[Computation]) -> None:
    """Put operands before readers again in what changed, and mend schedules."""
    changed = list(changed)
    for c in changed:
        c.reorder(c.in_order())
    if changed:
        repair_schedules(module)
