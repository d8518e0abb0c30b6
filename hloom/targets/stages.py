"""What compilation makes on its way, kept for those who look; nothing is imported for it here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hloom.base.diagnostics import UsageError
from hloom.base.faults import Fault
from hloom.program.program import Program

if TYPE_CHECKING:
    from hloom.codegen.runs import Decision
    from hloom.ir.module import Module
    from hloom.passes.pipeline import PassRecord
    from hloom.plan.buffer_assignment import BufferAssignment
    from hloom.plan.order import Order
    from hloom.targets.cpu.lowering import Lowering
    from hloom.targets.target import Target


@dataclass
class Stages:
    """What compilation made on the way, for those who look."""

    module: Module
    order: Order
    buffer_assignment: BufferAssignment
    lowering: Lowering
    program: Program
    texts: dict[str, str] = field(default_factory=dict)
    records: list[PassRecord] = field(default_factory=list)
    """One for each pass that ran."""
    faults: list[Fault] = field(default_factory=list)
    """Of the compiler, and what was done instead; none in a program from a cache."""
    decisions: list[Decision] = field(default_factory=list)
    """For every sequence of thunks, which parts of it run side by side, and why."""

    @property
    def scheduled(self) -> Module:
        """A copy of the module that says in which order it runs, for those who show it."""
        return self.order.scheduled(self.module)


class LaterStages(Stages):
    """The stages of a program that came from a cache: made when somebody looks at one of them."""

    def __init__(
        self, program: Program, module: Callable[[], Module], target: Callable[[], Target]
    ) -> None:
        """`module` gives what the program was made from, which is changed as stages are made."""
        self.program = program
        self.faults = []
        self._module_of, self._target_of = module, target

    def __getattr__(self, name: str) -> Any:
        if name not in _MADE_LATER:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        stages = self._target_of().written(self._module_of())
        for each in _MADE_LATER:
            setattr(self, each, getattr(stages, each))
        return getattr(self, name)


class SavedStages(Stages):
    """Of a saved program, which holds none but the program itself."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.records, self.faults, self.decisions = [], [], []

    def __getattr__(self, name: str) -> Any:
        if name not in _MADE_LATER:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        raise UsageError(
            f"{self.program.name} is a saved program, which holds no graph to show",
            rule="saved-program",
            hint="compile its HLO: hloom.compile takes it from the cache where it can",
        )


_MADE_LATER = frozenset(
    ("module", "order", "buffer_assignment", "lowering", "texts", "records", "decisions")
)
