"""Operations in two halves as one: for targets that run one operation after another.

async-start becomes a call (which the inliner takes apart), copy-start a copy; the done is what the
start computed. A start whose chain leaves the computation is kept, and one that takes so long that
others may run beside it.
"""

from __future__ import annotations

from hloom.analysis.alias_spaces import moved_to
from hloom.analysis.cost import module_cost
from hloom.ir.async_chain import bound_operands
from hloom.ir.computation import Computation
from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.module import Module
from hloom.ir.order import repair_schedules
from hloom.passes.control.flatten_call_graph import clone
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.shape import tuple_shape

FUNCTION_OPERATIONS = 20
"""Cheap operations that one of the dear ones is worth, about."""


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
    a device computes while others are on their way. So are computations that take `long_ns` or
    longer, by the costs of a device; they stay in two halves, and bind all operands at the start.
    Copies between memory spaces that an engine of the device makes are left, too.
    """

    name = "async-simplifier"
    opcodes = frozenset(["async-done", "copy-done"])
    long_ns: float = 1e18  # thirty years
    operation_ns: float = 0.0
    byte_ns: float = 0.0

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        start = i.operands[0]
        while start.opcode == "async-update":
            start = start.operands[0]
        if start.opcode not in ("async-start", "copy-start"):
            return None
        end = chain_end(start)
        if end is None or (not end[0] and wrapped_collective(start) is not None):
            return None
        if moved_to(start) is not None:
            return None
        if start.opcode == "copy-start":
            # Of the shape of its end, which may leave out that sizes are those of run time.
            replacement = b.emit("copy", start.operands[0], shape=i.shape)
        elif self._is_long(b.module, start):
            return _in_two_halves(b, start, has_updates=bool(end[0]))
        else:
            body = _alone(b.module, start, b.computation.execution_thread)
            replacement = b.emit("call", *bound_operands(start), called=(body,))
        replacement.copy_annotations(start)
        for before in start.control_predecessors:
            replacement.add_control_predecessor(before)
        return replacement

    def _is_long(self, module: Module, start: Instruction) -> bool:
        """Whether the computation of a start takes so long that it is worth two halves."""
        cost = module_cost(module).per_computation[start.called[0]]
        operations = cost.flops + cost.transcendentals * FUNCTION_OPERATIONS
        return operations * self.operation_ns + cost.bytes * self.byte_ns >= self.long_ns

    def run(self, module, *, trace=None, threads=frozenset()):
        result = super().run(module, trace=trace, threads=threads)
        if result.changed:
            for c in module.computations:
                drop_halves(c)
            repair_schedules(module)
        return result


def _alone(module: Module, start: Instruction, thread: str) -> Computation:
    """The computation of a start, to be called in a thread; a copy where others call it too."""
    body = start.called[0]
    if len(body.callers) == 1:
        body.execution_thread = thread
    elif body.execution_thread != thread:
        body = clone(body, module)  # others run it where they are
        body.execution_thread = thread
    return body


def _in_two_halves(b: Expansion, start: Instruction, has_updates: bool) -> Instruction | None:
    """A start with all operands, whose computation is a call, and its done; None where it is so.

    What is called is a program of its own to all passes; what a start holds is one operation.
    """
    body = start.called[0]
    if body.root.opcode == "call" and not has_updates:
        return None
    if body.root.opcode != "call":
        inner = body
        body = b.module.add_computation(f"{inner.name}.start", thread=inner.execution_thread)
        parameters = [
            body.add("parameter", shape=p.shape, number=p.attrs.number, name=p.name)
            for p in inner.parameters
        ]
        body.root = body.add("call", *parameters, called=(inner,), shape=inner.root.shape)
    operands = bound_operands(start)
    parts = (tuple_shape([x.shape for x in operands]), body.root.shape, *start.shape.elements[2:])
    thread, aliasing = start.attrs.async_execution_thread, start.attrs.output_to_operand_aliasing
    new_start = b.emit(
        "async-start",
        *operands,
        called=(body,),
        shape=tuple_shape(parts),
        async_execution_thread=thread,
        output_to_operand_aliasing=aliasing,
    )
    new_start.copy_annotations(start)
    for before in start.control_predecessors:
        new_start.add_control_predecessor(before)
    return b.emit("async-done", new_start, shape=body.root.shape)


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
