"""Instructions with called computations or other parts that shapes alone do not decide."""

from collections.abc import Iterator

from hloom.base.diagnostics import VerifyError
from hloom.ir.computation import Computation
from hloom.ir.custom_call_rules import wrong_custom_call
from hloom.ir.infer.compare import compatible
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import SIDE_EFFECT
from hloom.ir.values.aliasing import show_index, subshape
from hloom.ir.verify.rules import VerifyOptions, broken
from hloom.types.shape import Shape

THREADED = ("fusion", "while", "conditional")
BUFFER_TARGETS = ("Pin", "Unpin")
_EFFECTS = opcodes(SIDE_EFFECT)
"""What may stand unread in a fused body."""


def check_calls(module: Module, options: VerifyOptions) -> Iterator[VerifyError]:
    """Threads, fused bodies, aliasing, composite calls, constant scales."""
    for c in module.computations:
        for i in c.instructions:
            if i.opcode in THREADED:
                yield from _check_thread(i, c)
            check = _BY_OPCODE.get(i.opcode)
            if check is not None:
                yield from check(i)


def _check_thread(i: Instruction, c: Computation) -> Iterator[VerifyError]:
    for callee in i.called:
        if callee.execution_thread != c.execution_thread:
            yield broken(
                "thread",
                f"%{callee.name} runs on {callee.execution_thread!r} but its caller on "
                f"{c.execution_thread!r}",
                i,
            )


def _check_fusion(i: Instruction) -> Iterator[VerifyError]:
    body = i.called[0]
    fusions = sum(n for caller, n in body.callers.items() if caller.opcode == "fusion")
    if fusions != 1:
        yield broken("fusion", f"its body %{body.name} is fused {fusions} times", i)
    if body.root.users:
        yield broken("fusion", f"the root %{body.root.name} of its body is read as well", i)
    for x in body.instructions:
        if not x.users and x is not body.root and not _has_own_effect(x):
            yield broken("fusion", f"%{x.name} of its body is not used", i)
            break
    yield from _check_aliasing(i)


def _has_own_effect(i: Instruction) -> bool:
    """Whether it does more than compute a value, not counting what it calls."""
    a = i.attrs
    if i.opcode in _EFFECTS:
        return True
    if i.opcode == "all-reduce":
        return a.channel_id is not None or a.constrain_layout
    if i.opcode in ("all-gather", "all-to-all"):
        return a.constrain_layout
    return i.opcode == "custom-call" and a.custom_call_has_side_effect


def _check_call(i: Instruction) -> Iterator[VerifyError]:
    if i.attrs.output_to_operand_aliasing:
        yield broken("call-aliasing", "a call must not have output_to_operand_aliasing", i)
    if not i.attrs.is_composite:
        return
    attributes = i.frontend_attributes or {}
    if not attributes.get("composite.name"):
        yield broken("composite", "a composite call needs the attribute composite.name", i)
    if attributes.get("composite.attributes") == "":
        yield broken("composite", "composite.attributes must not be empty", i)
    version = attributes.get("composite.version")
    if version is not None and not _is_version(version):
        yield broken("composite", f"composite.version={version!r} is no version number", i)


def _is_version(text: str) -> bool:
    digits = text.strip().removeprefix("+")
    return digits.isascii() and digits.isdigit() and int(digits) < 2**63


def _check_aliasing(i: Instruction) -> Iterator[VerifyError]:
    """Each aliased part exists on both sides and has one shape."""
    aliasing = i.attrs.output_to_operand_aliasing
    if not aliasing:
        return
    attributes = i.frontend_attributes or {}
    skip = i.opcode == "custom-call" and "xla_skip_custom_call_alias_shape_check" in attributes
    for e in aliasing.entries:
        if not 0 <= e.operand_index < len(i.operands):
            yield broken("aliasing", f"there is no operand {e.operand_index} to alias", i)
            continue
        output = subshape(i.shape, e.output_shape_index)
        operand = subshape(i.operands[e.operand_index].shape, e.operand_shape_index)
        if output is None or operand is None:
            at = e.output_shape_index if output is None else e.operand_shape_index
            side = "output" if output is None else f"operand {e.operand_index}"
            yield broken("aliasing", f"{side} has no part {show_index(at)}", i)
        elif not skip and not _may_alias(i, output, operand):
            yield broken(
                "aliasing", f"output {output.bare} cannot be aliased with {operand.bare}", i
            )


def _may_alias(i: Instruction, output: Shape, operand: Shape) -> bool:
    pins = i.opcode == "async-start" or (
        i.opcode == "custom-call" and i.attrs.custom_call_target in BUFFER_TARGETS
    )
    if pins:
        output = output.elements[0] if output.is_buffer else output
        operand = operand.elements[0] if operand.is_buffer else operand
    return compatible(output, operand)


def _check_custom_call(i: Instruction) -> Iterator[VerifyError]:
    yield from _check_aliasing(i)
    if wrong := wrong_custom_call(i):
        yield broken("custom-call-form", wrong, i)


def _check_scaled_dot(i: Instruction) -> Iterator[VerifyError]:
    for scale in i.operands[2:]:
        if scale.opcode == "constant" and scale.shape.is_scalar:
            value = scale.attrs.literal
            if not value.is_all(1):
                yield broken("scale", f"the scalar scale %{scale.name} must be 1", i)


_BY_OPCODE = {
    "fusion": _check_fusion,
    "call": _check_call,
    "custom-call": _check_custom_call,
    "async-start": _check_aliasing,
    "scaled-dot": _check_scaled_dot,
}
