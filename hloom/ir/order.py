"""An order of instructions that depends on the graph alone."""

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction


def canonical_order(c: Computation) -> list[Instruction]:
    """Post order from the sinks, the root last: independent of names and of program order, but
    for the order of values nobody reads."""
    order: dict[Instruction, None] = {}
    sinks = [i for i in c.instructions if not i.users and i is not c._root]
    for sink in [*sinks, c.root]:
        stack = [sink]
        while stack:
            i = stack[-1]
            waiting = [x for x in i.operands + i.control_predecessors if x not in order]
            if i in order or not waiting:
                order[stack.pop()] = None
            elif len(stack) > len(c.instructions) + 1:
                raise ValueError(f"%{i.name} depends on itself")
            else:
                stack.append(waiting[0])
    return list(order)
