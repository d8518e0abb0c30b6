"""Takes a module all the way to places and compares a run in memory with what it means."""

from __future__ import annotations

from hloom.interp import evaluate, random_arguments
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.ir.text import parse_module
from hloom.ir.verify import verify
from hloom.memory.assign import AssignOptions, assign_buffers
from hloom.memory.copies import CopyOptions, CopyResult, insert_copies
from hloom.plan.buffer_assignment import BufferAssignment
from hloom.plan.order import Order
from hloom.plan.verify import check_buffer_assignment
from hloom.schedule.least_memory import least_memory_order
from tests.memory.memory_machine import MemoryMachine, assert_same_result


def placed(
    module: Module, copies: CopyOptions | None = None, assign: AssignOptions | None = None
) -> tuple[Order, BufferAssignment, CopyResult]:
    """Order, insert copies, assign; the order and the plan are checked, as the module stands."""
    schedule, order = module.schedule, least_memory_order(module)
    result = insert_copies(module, order, copies)
    assignment = assign_buffers(module, order, assign)
    check_buffer_assignment(module, assignment)
    assert module.schedule is schedule
    verify(order.scheduled(module))
    return order, assignment, result


def run_both(
    module: Module | str,
    copies: CopyOptions | None = None,
    assign: AssignOptions | None = None,
    seed: int = 0,
) -> tuple[Module, BufferAssignment, CopyResult]:
    """Compare a run in memory with `evaluate`; the module with copies, and its places."""
    if isinstance(module, str):
        module = parse_module(module)
    made = copy_module(module)
    order, assignment, result = placed(made, copies, assign)
    arguments = random_arguments(module, seed)
    expected = evaluate(module, *arguments)
    assert_same_result(expected, MemoryMachine(made, order, assignment).run(arguments))
    return made, assignment, result


def copy_count(module: Module) -> int:
    """How many copies a module has."""
    return sum(i.opcode == "copy" for i in module.instructions())
