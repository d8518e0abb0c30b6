"""The order in which a program runs: what a scheduler decides, and all phases after it ask.

An order is a value of its own, made after the last pass; the module does not hold it. What a module
does hold, `Module.schedule`, is what its text or proto says (`is_scheduled=true`): the order of
whoever wrote it. The text of an order, both ways, is that of a scheduled module: `scheduled` makes
one, and `Order(module.schedule)` reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hloom.base.diagnostics import HloError
from hloom.ir.computation import Computation
from hloom.ir.copy import copy_module
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module

Schedule = Mapping[Computation, Sequence[Instruction]]
"""What a module states."""


@dataclass(slots=True)
class Order:
    """The instructions of the entry, and of all that control flow calls, in the order they run."""

    steps: dict[Computation, list[Instruction]]

    def of(self, c: Computation) -> list[Instruction]:
        """The instructions of a computation as they run; `HloError` where it has no order."""
        steps = self.steps.get(c)
        if steps is None:
            raise HloError(f"computation %{c.name} has no order of execution", rule="schedule")
        return steps

    def insert(
        self, c: Computation, added: Sequence[Instruction], before: Instruction | None
    ) -> None:
        """Let these run right before an instruction of their computation; None: at its end."""
        steps = self.of(c)
        at = len(steps) if before is None else steps.index(before)
        steps[at:at] = added

    def drop_erased(self, computations: Iterable[Computation]) -> None:
        """Forget the instructions that are in these computations no more."""
        for c in computations:
            self.steps[c] = [i for i in self.of(c) if i in c.instructions]

    def scheduled(self, module: Module) -> Module:
        """A copy of the module that states this order as its schedule."""
        return copy_module(module, self.steps)
