"""What is decided about a module, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hloom.analysis.alias_spaces import EntrySpaces
from hloom.base.faults import Fault
from hloom.codegen.runs import Decision
from hloom.ir.module import Module
from hloom.passes.pipeline import PassRecord
from hloom.plan.buffer_assignment import BufferAssignment
from hloom.plan.order import Order
from hloom.program.thunks.thunk import Thunk

if TYPE_CHECKING:
    from hloom.targets.cpu.function_texts import FunctionTexts
    from hloom.targets.cpu.lowering import Lowering


class Prepared(NamedTuple):
    """A module after its passes, in the order in which it runs."""

    module: Module
    order: Order
    spaces: EntrySpaces
    """Of the caller's arrays."""
    records: list[PassRecord]
    """One for each pass that ran."""


class Planned(NamedTuple):
    """A module after its passes, and what has been decided about it."""

    module: Module
    order: Order
    buffer_assignment: BufferAssignment
    records: list[PassRecord]


@dataclass(frozen=True)
class Lowered:
    """A planned module, and the steps that run it."""

    plan: Planned
    lowering: Lowering
    functions: FunctionTexts
    thunks: tuple[Thunk, ...]
    decisions: list[Decision]
    faults: list[Fault]
