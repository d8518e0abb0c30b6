"""Meanings of operations in two halves: the first half does the work, the second hands it on.

An async-start runs its computation at once: the result is the same, since nobody may look at it
before the done, and collectives and transfers inside meet the other devices there (IR-13).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from hloom.base.diagnostics import EvalError
from hloom.interp.frame import Enter, Frame
from hloom.interp.registry import MEANING
from hloom.interp.values import Value, zero
from hloom.ir.instruction import Instruction


@MEANING.of("async-start")
def async_start(i: Instruction, frame: Frame, *inputs: Value) -> Generator[Enter, Any, Value]:
    """((inputs), result, contexts...)."""
    result = yield Enter(i.called[0], inputs)
    return (inputs, result, *contexts(i))


def contexts(i: Instruction) -> tuple[Value, ...]:
    """Zeros for what follows operands and result in the shape of a first half."""
    return tuple(zero(part) for part in i.shape.elements[2:])


@MEANING.of("async-update")
def async_update(i: Instruction, frame: Frame, x: Value) -> Value:
    return x


@MEANING.of("async-done")
def async_done(i: Instruction, frame: Frame, x: Value) -> Value:
    return started_result(x)


def started_result(x: Value) -> Value:
    """The second element of what a first half returned."""
    if not isinstance(x, tuple) or len(x) < 2:
        raise EvalError("the operand is not the value of a start operation")
    return x[1]


@MEANING.of("copy-start")
def copy_start(i: Instruction, frame: Frame, x: Value) -> Value:
    """(destination, source, contexts...)."""
    return (x, x, *contexts(i))


@MEANING.of("copy-done")
def copy_done(i: Instruction, frame: Frame, x: Value) -> Value:
    if not isinstance(x, tuple) or not x:
        raise EvalError("the operand is not the value of a start operation")
    return x[0]
