"""Operations in two halves as one: for targets that run one operation after another.

async-start becomes a call (which the inliner takes apart), copy-start a copy; the done is what the
start computed. A start whose chain leaves the computation is kept.
"""

from __future__ import annotations

from hloom.ir.async_chain import bound_operands
from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.order import repair_schedules
from hloom.passes.control.flatten_call_graph import clone
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register


def chain_end(start: Instruction) -> tuple[list[Instruction], Instruction] | None:
    """The updates and the done of a start; None when it has no done here, or other readers."""
    updates: list[Instruction] = []
    i = start
    while True:
        if len(i.users) != 1 or i.is_root:
            return None
        (reader,) = i.users
        if reader.opcode == "async-update":
            updates.append(reader)
            i = reader
        elif reader.opcode in ("async-done", "copy-done"):
            return updates, reader
        else:
            return None


def wrapped_collective(start: Instruction) -> Instruction | None:
    """The collective that is all that an async-start runs, of its operands in order."""
    if start.opcode != "async-start":
        return None
    root = start.called[0].root
    numbers = [x.attrs.number for x in root.operands if x.opcode == "parameter"]
    is_whole = numbers == list(range(len(start.operands))) == list(range(len(root.operands)))
    return root if root.opcode in COLLECTIVES and is_whole else None


@register
class AsyncSimplifier(Expander):
    """Replace asynchronous operations by synchronous ones: async-start by call, copy-start by copy.

    Collectives in two halves are left, those of their own and those that wrap one: between the two
    a device computes while others are on their way.
    """

    name = "async-simplifier"
    opcodes = frozenset(["async-done", "copy-done"])

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        start = i.operands[0]
        while start.opcode == "async-update":
            start = start.operands[0]
        if start.opcode not in ("async-start", "copy-start"):
            return None
        end = chain_end(start)
        if end is None or (not end[0] and wrapped_collective(start) is not None):
            return None
        if start.opcode == "copy-start":
            made = b.copy(start.operands[0])
        else:
            body = start.called[0]
            wanted = b.computation.execution_thread
            if len(body.callers) == 1:
                body.execution_thread = wanted
            elif body.execution_thread != wanted:
                body = clone(body, b.module)  # others run it where they are
                body.execution_thread = wanted
            made = b.emit("call", *bound_operands(start), called=(body,))
        made.copy_annotations(start)
        for before in start.control_predecessors:
            made.add_control_predecessor(before)
        return made

    def run(self, module, *, trace=None, threads=frozenset()):
        result = super().run(module, trace=trace, threads=threads)
        if result.changed:
            for c in module.computations:
                drop_halves(c)
            repair_schedules(module)
        return result


def drop_halves(c) -> None:
    """Erase starts and updates that nothing reads any more, handing on their control edges."""
    for i in reversed(list(c.instructions)):
        if i.opcode not in ("async-start", "async-update", "copy-start") or i.users or i.is_root:
            continue
        before, after = i.control_predecessors, i.control_successors
        i.drop_control_edges()
        for a in after:
            for p in before:
                a.add_control_predecessor(p)
        c.erase(i)
