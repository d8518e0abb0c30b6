"""Orders of instructions: one that depends on the graph alone, one that keeps to an older one."""

from collections.abc import Iterable, Iterator

from hloom.base.diagnostics import GraphError
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import CONTROL_FLOW


def _put(start: Instruction, order: dict[Instruction, None]) -> None:
    """Append `start` to the order, behind everything it depends on that is not there yet."""
    if start in order:
        return
    stack: list[tuple[Instruction, Iterator[Instruction]]] = [_visit(start)]
    open_ = {start}
    while stack:
        i, rest = stack[-1]
        for x in rest:
            if x in open_:
                raise GraphError(f"%{x.name} depends on itself")
            if x not in order:
                stack.append(_visit(x))
                open_.add(x)
                break
        else:
            order[i] = None
            open_.discard(i)
            stack.pop()


def _visit(i: Instruction) -> tuple[Instruction, Iterator[Instruction]]:
    return i, iter(i.operands + i.control_predecessors)


def canonical_order(c: Computation) -> list[Instruction]:
    """Post order from the sinks, the root last: independent of names and of program order, but
    for the order of values nobody reads."""
    order: dict[Instruction, None] = {}
    for i in c.instructions:
        if not i.users and i is not c._root:
            _put(i, order)
    _put(c.root, order)
    return list(order)


def order_like(old: Iterable[Instruction], c: Computation) -> list[Instruction]:
    """The instructions of a computation in an older order, as far as they were in it: new ones
    stand right before what first needs them."""
    order: dict[Instruction, None] = {}
    for i in (*(i for i in old if i in c.instructions), *c.instructions):
        _put(i, order)
    return list(order)


_RUNS = opcodes(CONTROL_FLOW)


def is_applied(c: Computation) -> bool:
    """Whether it is called, and by nothing that runs it as a step of the program."""
    return bool(c.callers) and not any(i.opcode in _RUNS for i in c.callers)


def repair_schedules(module: Module) -> None:
    """After a rewrite of a scheduled module: make its schedules hold what is there now, in the
    order that it was in. What has become a step of the program gets an order; bodies that are no
    longer called and have no schedule go."""
    if module.schedule is None:
        return
    for c in reversed(module.computations_in_order()):
        if not c.callers and not c.is_entry and c not in module.schedule:
            module.remove_computation(c)
    module.schedule = {
        c: order_like(old, c) for c, old in module.schedule.items() if c in module.computations
    }
    for c in module.computations:
        if c not in module.schedule and not c.is_fusion and not is_applied(c):
            module.schedule[c] = c.in_order()
