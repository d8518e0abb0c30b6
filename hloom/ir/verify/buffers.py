"""Buffers `b(f32[4])`: values that are written in place, by one writer each."""

from collections.abc import Iterator

from hloom.base.diagnostics import VerifyError
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import ASYNC_CHAIN, CONTROL_FLOW
from hloom.ir.values.aliasing import show_index
from hloom.ir.verify.pairs import is_async_body
from hloom.ir.verify.rules import VerifyOptions, broken
from hloom.types.shape import Shape

Index = tuple[int, ...]
_ASYNC = opcodes(ASYNC_CHAIN)
_CALLERS = opcodes(CONTROL_FLOW, also=("fusion", "custom-call"))
STREAM = "_xla_stream_annotation"


def buffers_in(shape: Shape) -> list[Index]:
    """Where in a shape the buffers are."""
    return [index for index, part in shape.subshapes() if part.is_buffer]


def _holds_buffer(shape: Shape, known: dict[Shape, bool]) -> bool:
    """Whether there is a buffer in a shape; parts that come again are looked at once."""
    stack, seen = [shape], {shape}
    while stack:
        part = stack.pop()
        if part.is_buffer or known.get(part):
            return True
        new = [x for x in part.elements if x not in seen and x not in known]
        seen.update(new)
        stack.extend(new)
    return False


def check_buffers(module: Module, options: VerifyOptions) -> Iterator[VerifyError]:
    """The rules for values of buffer type; costs one scan where there are none."""
    has_buffers: dict[Shape, bool] = {}
    for c in module.computations:
        wrapped = is_async_body(c)
        for i in c.instructions:
            holds_one = has_buffers.get(i.shape)
            if holds_one is None:
                holds_one = has_buffers[i.shape] = _holds_buffer(i.shape, has_buffers)
            custom = i.opcode == "custom-call"
            if wrapped:
                if custom and i.is_root:
                    yield from _check_custom_call(i)
            elif custom:
                yield from _check_custom_call(i)
            elif i.opcode in _ASYNC or _is_streamed_call(i):
                continue
            elif i.opcode in ("while", "parameter"):
                if holds_one and i.opcode == "parameter" and c.is_entry:
                    yield broken("buffer-place", f"the entry cannot take {i.shape.bare}", i)
                for index in buffers_in(i.shape) if holds_one else ():
                    yield from _check_writers(i, index)
            elif i.opcode not in ("get-tuple-element", "tuple"):
                if holds_one or any(has_buffers.get(x.shape) for x in i.operands):
                    yield broken("buffer-place", f"{i.opcode} cannot handle buffers", i)


def _is_streamed_call(i: Instruction) -> bool:
    return i.opcode == "call" and STREAM in (i.frontend_attributes or {})


def _check_custom_call(i: Instruction) -> Iterator[VerifyError]:
    target = i.attrs.custom_call_target
    aliasing = i.attrs.output_to_operand_aliasing
    count = len(aliasing.entries) if aliasing else 0
    operand = i.operands[0].shape if len(i.operands) == 1 else None
    if target == "Pin":
        if operand is None or not operand.is_array:
            yield broken("buffer", "Pin takes one array", i)
        elif not i.shape.is_buffer or i.shape.elements[0].bare is not operand.bare:
            yield broken("buffer", f"Pin of {operand.bare} gives {i.shape.bare}", i)
        elif count != 1:
            yield broken("buffer", "Pin needs one output_to_operand_aliasing", i)
        else:
            yield from _check_writers(i, ())
    elif target == "CreateBuffer":
        if i.operands or not i.shape.is_buffer:
            yield broken("buffer", f"CreateBuffer takes nothing and gives a buffer: {i.shape}", i)
        else:
            yield from _check_writers(i, ())
    elif target == "Unpin":
        if operand is None or not operand.is_buffer:
            yield broken("buffer", "Unpin takes one buffer", i)
        elif not i.shape.is_array or operand.elements[0].bare is not i.shape.bare:
            yield broken("buffer", f"Unpin of {operand.bare} gives {i.shape.bare}", i)
        elif count != 1:
            yield broken("buffer", "Unpin needs one output_to_operand_aliasing", i)
    else:
        yield from _check_updates(i)


def _check_updates(i: Instruction) -> Iterator[VerifyError]:
    """Buffers of any other custom call go in and come out once, each aliased with the other."""
    aliasing = i.attrs.output_to_operand_aliasing
    entries = aliasing.entries if aliasing else ()
    aliased_operands = [(e.operand_index, e.operand_shape_index) for e in entries]
    aliased_outputs = [e.output_shape_index for e in entries]
    for number, x in enumerate(i.operands):
        for index in buffers_in(x.shape):
            count = aliased_operands.count((number, index))
            if count != 1:
                yield broken(
                    "buffer-aliasing",
                    f"the buffer in operand {number} {show_index(index)} is aliased with "
                    f"{count} results, not with one",
                    i,
                )
    for index in buffers_in(i.shape):
        count = aliased_outputs.count(index)
        if count != 1:
            yield broken(
                "buffer-aliasing",
                f"the buffer in result {show_index(index)} is aliased with {count} operands, "
                "not with one",
                i,
            )
        yield from _check_writers(i, index)


def _check_writers(i: Instruction, index: Index) -> Iterator[VerifyError]:
    """At most one reader of this buffer may write it; unpinning counts as writing."""
    writers: list[Instruction] = []
    stack = [(i, index)]
    while stack:
        value, at = stack.pop()
        for user in value.users:
            if user.opcode in _CALLERS:
                writers.append(user)
            elif user.opcode == "get-tuple-element":
                if at and user.attrs.index == at[0]:
                    stack.append((user, at[1:]))
            elif user.opcode == "tuple":
                if not user.is_root:
                    stack.append((user, (user.operands.index(value), *at)))
                elif any(c.opcode == "while" for c in user.parent.callers):
                    writers.append(user)
    if len(writers) > 1:
        names = " and ".join(f"%{w.name}" for w in writers[:2])
        yield broken("buffer-writer", f"the buffer has more than one writer: {names}", i)
