"""Meanings of operations in two halves: the first half does the work, the second hands it on.

An async-start runs its computation at once: the result is the same, since nobody may look at it
before the done, and collectives and transfers inside meet the other devices there. Where
updates bind the rest of its operands, the last of them runs it, or the done where the shape has no
room for the result before.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from hloom.base.diagnostics import EvalError
from hloom.interp.context import Enter, EvalContext
from hloom.interp.registry import MEANING
from hloom.interp.values import EvalValue, zero
from hloom.ir.async_chain import async_start_of
from hloom.ir.computation import Computation
from hloom.ir.infer.compare import compatible
from hloom.ir.instruction import Instruction


@MEANING.of("async-start")
def async_start(
    i: Instruction, context: EvalContext, *inputs: EvalValue
) -> Generator[Enter, Any, EvalValue]:
    """((inputs), result, contexts...)."""
    return (yield from _step(i, i.called[0], inputs, contexts(i)))


def _step(
    i: Instruction, body: Computation, inputs: tuple[EvalValue, ...], rest: tuple[EvalValue, ...]
) -> Generator[Enter, Any, EvalValue]:
    """The value of a start or update: with the result once it can be had and has a place."""
    if not has_result(i, body):
        return (inputs, (), *rest)
    result = yield Enter(body, inputs)
    return (inputs, result, *rest)


def has_result(i: Instruction, body: Computation) -> bool:
    """Whether a start or update has bound all operands and its shape holds the whole result."""
    bound, result = i.shape.elements[:2]
    full = len(bound.elements) == len(body.parameters)
    return full and compatible(result, body.root.shape)


def body_of(i: Instruction) -> Computation:
    """The computation that the start of an update's or done's chain calls."""
    start = async_start_of(i)
    if start is None:
        raise EvalError("the operand is not the value of a start operation")
    return start.called[0]


def contexts(i: Instruction) -> tuple[EvalValue, ...]:
    """Zeros for what follows operands and result in the shape of a first half."""
    return tuple(zero(part) for part in i.shape.elements[2:])


@MEANING.of("async-update")
def async_update(
    i: Instruction, context: EvalContext, x: EvalValue, *inputs: EvalValue
) -> Generator[Enter, Any, EvalValue]:
    """The value so far with further operands; with the result once that can be had."""
    body = body_of(i)
    if not isinstance(x, tuple) or len(x) < 2 or has_result(i.operands[0], body):
        return x
    return (yield from _step(i, body, (*x[0], *inputs), x[2:]))


@MEANING.of("async-done")
def async_done(
    i: Instruction, context: EvalContext, x: EvalValue
) -> Generator[Enter, Any, EvalValue]:
    body = body_of(i)
    if isinstance(x, tuple) and len(x) > 1 and not has_result(i.operands[0], body):
        return (yield Enter(body, x[0]))
    return started_result(x)


def started_result(x: EvalValue) -> EvalValue:
    """The second element of what a first half returned."""
    if not isinstance(x, tuple) or len(x) < 2:
        raise EvalError("the operand is not the value of a start operation")
    return x[1]


@MEANING.of("copy-start")
def copy_start(i: Instruction, context: EvalContext, x: EvalValue) -> EvalValue:
    """(destination, source, contexts...)."""
    return (x, x, *contexts(i))


@MEANING.of("copy-done")
def copy_done(i: Instruction, context: EvalContext, x: EvalValue) -> EvalValue:
    if not isinstance(x, tuple) or not x:
        raise EvalError("the operand is not the value of a start operation")
    return x[0]
