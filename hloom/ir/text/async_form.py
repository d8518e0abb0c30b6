"""The short form of asynchronous operations: `negate-start(%x)`, `negate-done(%s)`.

A start stands for an async-start that calls a computation holding that one operation on its
parameters; the printer folds such computations away again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS, OpDef
from hloom.ir.text.demands import is_start_shape
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


_ALIASING = "output_to_operand_aliasing"
WRAPPER, PARAMETER = "async_wrapped", "async_param"
"""The names XLA gives to what the short form hides."""


def add_async_start(reader: InstructionReader, draft: Draft) -> Instruction:
    """An async-start whose called computation holds one operation on its parameters.

    Frontend attributes and backend config describe the operation, so it has them too.
    """
    wrapped, shape, operands = draft.wrapped, draft.shape, draft.operands
    assert wrapped
    if not is_start_shape(shape):
        reader.cursor.fail(
            f"{wrapped.name}-start needs a shape ((operands), result, contexts...)",
            draft.at,
            instruction=f"%{draft.name}",
            rule="async-shape",
        )
    assert shape
    thread = draft.values.pop("async_execution_thread", "main")
    aliasing = None
    if _ALIASING not in wrapped.field_by_name:
        aliasing = draft.values.pop(_ALIASING, None)
    body = reader.reader.module.add_computation(WRAPPER, thread=thread)
    inner = Draft(body, None, shape.elements[1], wrapped, draft.at)
    inner.values, inner.called = draft.values, draft.called
    inner.operands = tuple(
        body.append("parameter", OPS["parameter"].attrs(number=k), (), x.shape, PARAMETER)
        for k, x in enumerate(operands)
    )
    body.root = reader.add(inner)
    body.root.frontend_attributes = draft.annotations.get("frontend_attributes") or None
    body.root.backend_config = draft.annotations.get("backend_config")
    attrs = OPS["async-start"].attrs(
        async_execution_thread=thread, output_to_operand_aliasing=aliasing
    )
    return draft.into.append("async-start", attrs, operands, shape, draft.name, (body,))


def check_follower(reader: InstructionReader, draft: Draft) -> None:
    """An update or done in the short form must follow a start of the same operation."""
    wrapped = draft.wrapped
    assert wrapped
    start = draft.operands[0] if draft.operands else None
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
    """Whether the short form says all there is to know of a computation but its names.

    It wraps one operation on its parameters for one async-start, agrees with its shapes, and
    repeats its annotations as the reader would.
    """
    root = c._root
    if root is None or len(c.callers) != 1 or len(c.instructions) != len(c.parameters) + 1:
        return False
    start = next(iter(c.callers))
    if start.opcode != "async-start" or not is_start_shape(start.shape):
        return False
    if root.opcode == "parameter" or root.operands != tuple(c.parameters):
        return False
    if f"{root.opcode}-start" in OPS or root.opcode in ("constant", "iota"):
        return False
    shapes = [x.shape for x in start.operands]
    return (
        root.shape is start.shape.elements[1]
        and [p.shape for p in c.parameters] == shapes
        and c.execution_thread == start.attrs.async_execution_thread
        and root.frontend_attributes == start.frontend_attributes
        and root.backend_config == start.backend_config
        and not (root.sharding or root.extra or root.has_control_edges)
        and not any(_is_annotated(p) for p in c.parameters)
        and not (start.attrs.output_to_operand_aliasing and hasattr(root.attrs, _ALIASING))
        and (root.metadata is None or root.metadata in _metadata_of_chain(start))
    )


def _is_annotated(p: Instruction) -> bool:
    return bool(p.metadata or p.sharding or p.frontend_attributes or p.backend_config or p.extra)


def _metadata_of_chain(start: Instruction) -> list[Any]:
    metadata, i = [start.metadata], start
    while i.users and i.opcode != "async-done":
        i = next(iter(i.users))
        metadata.append(i.metadata)
    return metadata


def same_wrapper(a: Computation, b: Computation) -> bool:
    """Whether the short forms of two computations that `is_async_wrapper` holds for are equal,
    but for what is written at their callers."""
    x, y = a.root, b.root
    return (
        x.opcode == y.opcode
        and x.attrs == y.attrs
        and x.shape is y.shape
        and a.execution_thread == b.execution_thread
        and [c.name for c in x.called] == [c.name for c in y.called]
        and [p.shape for p in a.parameters] == [p.shape for p in b.parameters]
    )
