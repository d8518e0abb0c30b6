"""Meanings of custom calls: those with one meaning everywhere, and the hooks of the caller.

`EvalOptions.custom_calls` comes first, so that a caller may replace a built-in meaning; what
neither knows is an error that says how to give a hook.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.base.registry import Registry
from hloom.interp.arguments import as_value
from hloom.interp.context import EvalContext
from hloom.interp.elementwise_complex import joined
from hloom.interp.registry import MEANING
from hloom.interp.values import TOKEN, EvalValue, zero
from hloom.ir.custom_call_rules import (
    CHOICES,
    DIALECTS,
    FUNCTIONS,
    takes_largest,
    wrong_custom_call,
    wrong_front_end_call,
)
from hloom.ir.instruction import Instruction

TARGETS: Registry[str, Callable[..., Any]] = Registry("custom-call target")
"""From a target to its meaning: a function like those of `MEANING`."""


@MEANING.of("custom-call")
def custom_call(i: Instruction, context: EvalContext, *inputs: EvalValue) -> EvalValue:
    target = i.attrs.custom_call_target
    hooks = context.options.custom_calls
    hook = hooks.get(target)
    if hook is None and (meaning := TARGETS.get(target)) is not None:
        if wrong := wrong_custom_call(i) or wrong_front_end_call(i):
            raise EvalError(f"custom call: {wrong}", instruction=f"%{i.name}")
        return meaning(i, context, *inputs)
    hook = hook or hooks.get("*")
    if hook is None:
        raise EvalError(
            f"custom call {target!r} has no meaning here",
            instruction=f"%{i.name}",
            hint=f"give one: EvalOptions(custom_calls={{{target!r}: hook}}), where "
            "hook(instruction, *operand_values) returns the value",
        )
    return as_value(hook(i, *inputs), i.shape, f"what the hook of {target!r} returned")


@TARGETS.of(
    "Sharding",
    "annotate_device_placement",
    "MoveToHost",
    "MoveToDevice",
    "MoveToMemorySpace",
    "Pin",
    "Unpin",
    "LayoutConstraint",
    "AssumeGatherIndicesInBound",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.PropagationBarrier",
)
def same(i: Instruction, context: EvalContext, *inputs: EvalValue) -> EvalValue:
    """The operand: the call only says where it lives or how it is spread."""
    if len(inputs) == 1 and not (i.shape.is_tuple and not isinstance(inputs[0], tuple)):
        return inputs[0]
    return inputs


@TARGETS.of("CreateBuffer", "AllocateBuffer")
def empty(i: Instruction, context: EvalContext, *inputs: EvalValue) -> EvalValue:
    """A buffer nobody has written to; here it holds zeros."""
    return zero(i.shape)


@TARGETS.of("xla.sdy.ShardingGroup", "xla.sdy.FunctionResultSharding", "control_dep")
def annotation(i: Instruction, context: EvalContext, *inputs: EvalValue) -> EvalValue:
    """Says something of its operand and has no value, or passes it on."""
    if i.shape.is_tuple and not i.shape.elements:
        return ()
    return TOKEN if i.shape.is_token else inputs[0]


@TARGETS.of(
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape",
)
def between_full_and_shard(
    i: Instruction, context: EvalContext, x: EvalValue, *more: EvalValue
) -> EvalValue:
    """The identity where both shapes are one; else the program still has to be partitioned."""
    if not more and i.operands[0].shape.compatible(i.shape):
        return x
    raise EvalError(
        f"{i.attrs.custom_call_target} changes {i.operands[0].shape.text_without_layout} into "
        f"{i.shape.text_without_layout}: the program of one device is not known before "
        "partitioning",
        hint="partition the module first, or give a hook in EvalOptions.custom_calls",
    )


@TARGETS.of("TopK", *[f"{dialect}.{name}" for dialect in DIALECTS for name in sorted(CHOICES)])
def top_k(i: Instruction, context: EvalContext, x: np.ndarray) -> EvalValue:
    """(the k first of the last dimension in the order of `topk`, their s32 positions)."""
    k, target = i.shape.elements[0].dims[-1], i.attrs.custom_call_target
    return _as_operation(i, "topk", [x], k=k, largest=target == "TopK" or takes_largest(i))


@TARGETS.of(*[f"{dialect}.{name}" for dialect in DIALECTS for name in sorted(FUNCTIONS)])
def function(i: Instruction, context: EvalContext, x: np.ndarray) -> EvalValue:
    """The operation of that name, of each element."""
    name = i.attrs.custom_call_target.partition(".")[2]
    if name != "atan":
        return _as_operation(i, name, [x])
    if not i.shape.dtype.is_complex:
        return _as_operation(i, "atan2", [x, np.ones_like(x)])
    # -i atanh(iz), by parts: a product with i makes NaN of infinities.
    turned = _as_operation(i, "atanh", [joined(-np.imag(x), np.real(x)).astype(x.dtype)])
    return joined(np.imag(turned), -np.real(turned)).astype(x.dtype)


def _as_operation(
    i: Instruction, opcode: str, inputs: list[np.ndarray], **attributes: Any
) -> EvalValue:
    """What an operation on arrays like the operand of a call makes, in the shape of the call."""
    stand: Any = SimpleNamespace(
        opcode=opcode,
        name=i.name,
        shape=i.shape,
        operands=[i.operands[0]] * len(inputs),
        attrs=SimpleNamespace(**attributes),
    )
    return MEANING[opcode](stand, None, *inputs)


@TARGETS.of("SliceToDynamic")
def slice_to_dynamic(
    i: Instruction, context: EvalContext, x: np.ndarray, *sizes: np.ndarray
) -> EvalValue:
    """The first sizes[k] elements of each dimension, as an array of those run-time sizes."""
    if len(sizes) != x.ndim:
        raise EvalError(f"{len(sizes)} sizes for {x.ndim} dimensions")
    valid_sizes = [int(size) for size in sizes]
    if any(not 0 <= n <= most for n, most in zip(valid_sizes, x.shape)):
        raise EvalError(f"run-time sizes {valid_sizes} do not fit in {list(x.shape)}")
    return x[tuple(slice(0, n) for n in valid_sizes)]


@TARGETS.of("PadToStatic")
def pad_to_static(i: Instruction, context: EvalContext, x: np.ndarray) -> EvalValue:
    """(x padded with zeros to its bounds, the run-time size of each dimension as s32)."""
    padded = np.zeros(i.shape.elements[0].dims, x.dtype)
    padded[tuple(slice(0, n) for n in x.shape)] = x
    return (padded, *(np.array(n, np.int32) for n in x.shape))
