"""Takes a module all the way to places and compares a run in memory with what it means."""

from __future__ import annotations

from hloom.interp import evaluate, random_arguments
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.ir.text import parse_module
from hloom.ir.verify import verify
from hloom.memory.assign import AssignOptions, assign_buffers
from hloom.memory.copies import CopyOptions, CopyResult, insert_copies
from hloom.plan.order import Order
from hloom.plan.places import Places
from hloom.plan.verify import check_places
from hloom.schedule.least_memory import least_memory_order
from tests.memory.memory_machine import MemoryMachine, assert_same_result


def placed(
    module: Module, copies: CopyOptions | None = None, assign: AssignOptions | None = None
) -> tuple[Order, Places, CopyResult]:
    """Order, insert copies, assign; the order and the plan are checked, as the module stands."""
    schedule, order = module.schedule, least_memory_order(module)
    result = insert_copies(module, order, copies)
    places = assign_buffers(module, order, assign)
    check_places(module, places)
    assert module.schedule is schedule
    verify(order.scheduled(module))
    return order, places, result


def run_both(
    module: Module | str,
    copies: CopyOptions | None = None,
    assign: AssignOptions | None = None,
    seed: int = 0,
) -> tuple[Module, Places, CopyResult]:
    """Compare a run in memory with `evaluate`; the module with copies, and its places."""
    if isinstance(module, str):
        module = parse_module(module)
    made = copy_module(module)
    order, places, result = placed(made, copies, assign)
    arguments = random_arguments(module, seed)
    expected = evaluate(module, *arguments)
    assert_same_result(expected, MemoryMachine(made, order, places).run(arguments))
    return made, places, result


def copy_count(module: Module) -> int:
    """How many copies a module has."""
    return sum(i.opcode == "copy" for i in module.instructions())
