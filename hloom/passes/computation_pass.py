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
from hloom.passes.simplify.dce import remove_dead_instructions
from hloom.rewrite.driver import Trace
from hloom.rewrite.fusion import drop_unread_operands


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
    """Put operands before readers again in what changed, drop what bodies of fusions read no more,
    and mend schedules."""
    changed = list(changed)
    for c in changed:
        if c.is_fusion:
            remove_dead_instructions(c)
            drop_unread_operands(c)
        c.sort()
    if changed:
        repair_schedules(module)
