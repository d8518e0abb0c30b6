"""The short form of asynchronous operations: `negate-start(%x)`, `negate-done(%s)` (IR-13).

A start stands for an async-start that calls a computation holding that one operation on its
parameters; the printer folds such computations away again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS, OpDef
from hloom.ir.text.draft import Draft

if TYPE_CHECKING:
    from hloom.ir.text.instructions import InstructionReader

SUFFIXES = {"-start": "async-start", "-update": "async-update", "-done": "async-done"}


def async_form(opcode: str) -> tuple[OpDef, OpDef] | None:
    """The asynchronous operation and what it wraps, None when the opcode is no short form."""
    for suffix, full in SUFFIXES.items():
        if opcode.endswith(suffix) and (wrapped := OPS.get(opcode.removesuffix(suffix))):
            return OPS[full], wrapped
    return None


def add_async_start(reader: InstructionReader, draft: Draft) -> Instruction:
    """An async-start whose called computation holds one operation on its parameters."""
    wrapped, shape, operands = draft.wrapped, draft.shape, draft.operands
    assert wrapped
    if shape is None or not shape.is_tuple or len(shape.elements) < 2:
        reader.cursor.fail(
            f"{wrapped.name}-start needs a shape ((operands), result, contexts...)",
            draft.at,
            instruction=f"%{draft.name}",
            rule="async-shape",
        )
    thread = draft.values.pop("async_execution_thread", "main")
    aliasing = draft.values.pop("output_to_operand_aliasing", None)
    name = f"async_{wrapped.name.replace('-', '_')}"
    body = reader.reader.module.add_computation(name, thread=thread)
    inner = Draft(body, None, shape.elements[1], wrapped, draft.at)
    inner.values, inner.called = draft.values, draft.called
    inner.operands = tuple(
        body.append("parameter", OPS["parameter"].attrs(number=k), (), x.shape, f"param_{k}")
        for k, x in enumerate(operands)
    )
    body.root = reader.add(inner)
    attrs = OPS["async-start"].attrs(
        async_execution_thread=thread, output_to_operand_aliasing=aliasing
    )
    return draft.into.append("async-start", attrs, operands, shape, draft.name, (body,))


def check_follower(reader: InstructionReader, draft: Draft) -> None:
    """An update or done in the short form must follow a start of the same operation."""
    wrapped = draft.wrapped
    assert wrapped
    start = draft.operands[0] if len(draft.operands) == 1 else None
    while start is not None and start.opcode == "async-update" and start.operands:
        start = start.operands[0]
    if start is None or start.opcode != "async-start":
        reader.cursor.fail(
            f"{draft.op.name} takes one async operation", draft.at, instruction=f"%{draft.name}"
        )
    if start.called[0].root.opcode != wrapped.name:
        reader.cursor.fail(
            f"%{start.name} starts {start.called[0].root.opcode}, not {wrapped.name}",
            draft.at,
            instruction=f"%{draft.name}",
            rule="async-chain",
        )


def is_async_wrapper(c: Computation) -> bool:
    """Whether a computation only wraps one operation on its parameters, so sugar can hide it."""
    root = c._root
    if root is None or not c.callers or len(c.instructions) != len(c.parameters) + 1:
        return False
    if root.opcode == "parameter" or root.operands != tuple(c.parameters):
        return False
    if (
        f"{root.opcode}-start" in OPS
        or root.opcode in ("constant", "iota")
        or root.opcode not in OPS
    ):
        return False
    plain = root.sharding is None and root.frontend_attributes is None
    callers = all(i.opcode == "async-start" for i in c.callers)
    return plain and callers and len(c.callers) == 1 and root.backend_config is None


def async_start_of(i: Instruction) -> Instruction | None:
    """The async-start at the head of a chain of updates and a done."""
    while i.opcode in ("async-update", "async-done") and i.operands:
        i = i.operands[0]
    return i if i.opcode == "async-start" else None
