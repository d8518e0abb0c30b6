"""Meanings of control flow and of what only orders.

Those that call a computation are generator functions: see `registry.py`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.context import Enter, EvalContext
from hloom.interp.registry import MEANING
from hloom.interp.values import TOKEN, EvalValue
from hloom.ir.instruction import Instruction

Waiting = Generator[Enter, Any, EvalValue]


@MEANING.of("call", "fusion")
def call(i: Instruction, context: EvalContext, *inputs: EvalValue) -> Waiting:
    if i.opcode == "fusion":  # it may have more operands than its body takes
        inputs = inputs[: len(i.called[0].parameters)]
    return (yield Enter(i.called[0], inputs))


@MEANING.of("while")
def while_(i: Instruction, context: EvalContext, state: EvalValue) -> Waiting:
    """Stops with an error where the condition still holds after the allowed iterations."""
    condition, body = i.called
    limit, done = context.options.while_iteration_limit, 0
    while bool((yield Enter(condition, (state,)))):
        if done >= limit:
            raise EvalError(
                f"the loop did not end within {limit} iterations",
                instruction=f"%{i.name}",
                hint="raise EvalOptions.while_iteration_limit if it does end",
            )
        state = yield Enter(body, (state,))
        done += 1
    return state


@MEANING.of("conditional")
def conditional(
    i: Instruction, context: EvalContext, selector: np.ndarray, *inputs: EvalValue
) -> Waiting:
    index = chosen_branch(selector, len(i.called))
    if index >= len(inputs):
        raise EvalError(f"{len(i.called)} branches but {len(inputs)} branch operands")
    return (yield Enter(i.called[index], (inputs[index],)))


def chosen_branch(selector: np.ndarray, count: int) -> int:
    """Which branch runs: true takes the first; an index out of range takes the last."""
    if selector.dtype == np.bool_:
        return 0 if selector else 1
    index = int(selector)
    return index if 0 <= index < count else count - 1


@MEANING.of("opt-barrier", "domain")
def same(i: Instruction, context: EvalContext, x: EvalValue) -> EvalValue:
    """The operand unchanged."""
    return x


@MEANING.of("add-dependency")
def add_dependency(
    i: Instruction, context: EvalContext, x: EvalValue, token: EvalValue
) -> EvalValue:
    return x


@MEANING.of("after-all")
def after_all(i: Instruction, context: EvalContext, *tokens: EvalValue) -> EvalValue:
    return TOKEN


@MEANING.of("parameter")
def parameter(i: Instruction, context: EvalContext) -> EvalValue:
    """Plans put the arguments of a call into the slots of its parameters; nobody computes them."""
    raise EvalError(f"parameter %{i.name} has no value outside a call of its computation")
