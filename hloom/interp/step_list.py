"""A computation prepared for being evaluated many times.

Every instruction gets a slot; a step names its operands' slots, its own, and the slots nobody
reads afterwards, so that values are freed as early as the order allows. Constants are made once
and sit in the template that each run copies; from the second run on, so does all that depends on
them alone. Loop bodies run thousands of times on one list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import isgeneratorfunction
from typing import Any, NamedTuple

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.interp.direct import direct
from hloom.interp.dynamic_sizes import fitting
from hloom.interp.registry import MEANING
from hloom.interp.values import EvalValue, check_value_size, from_literal, normalised
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS, opcodes
from hloom.ir.traits import ASSOCIATIVE

KNOWN_COMBINERS = opcodes(ASSOCIATIVE)


class Step(NamedTuple):
    """One instruction of a step list."""

    instruction: Instruction
    meaning: Callable[..., Any]
    waits: bool
    """Whether the meaning is a generator function: it calls computations or meets devices."""
    operands: tuple[int, ...]
    slot: int
    dead: tuple[int, ...]
    """Slots whose values nobody reads after this step."""


@dataclass(frozen=True, slots=True)
class StepList:
    """The steps of one computation."""

    computation: Computation
    steps: tuple[Step, ...]
    template: list[EvalValue]
    """Initial slots: constants, and None for everything else."""
    parameters: tuple[int, ...]
    """The slot of each parameter."""
    root: int


def needed(computation: Computation, order: list[Instruction]) -> set[Instruction]:
    """What must run: all that the root depends on, and whatever has a side effect."""
    needed_ = {computation.root}
    for i in reversed(order):
        if i in needed_ or i.has_side_effect:
            needed_.add(i)
            needed_.update(i.operands)
    return needed_


def step_list(computation: Computation, memory_limit_bytes: int) -> StepList:
    """The steps of a computation; `EvalError` when it has a cycle or no root."""
    try:
        order = computation.in_order()
        needed_ = needed(computation, order)
    except ValueError as error:
        raise EvalError(str(error)) from error
    slots: dict[Instruction, int] = {}
    template: list[EvalValue] = []
    running: list[Instruction] = []
    for i in order:
        if i not in needed_:
            continue
        slots[i] = len(template)
        if i.opcode == "constant":
            template.append(from_literal(i.attrs.literal))
            continue
        template.append(None)
        if i.opcode != "parameter":
            if i.opcode not in ("tuple", "get-tuple-element"):
                check_value_size(i, memory_limit_bytes)
            running.append(i)
    for p in computation.parameters:
        if p not in slots:
            slots[p] = len(template)
            template.append(None)
    return StepList(
        computation,
        _steps(computation, running, slots),
        template,
        tuple(slots[p] for p in computation.parameters),
        slots[computation.root],
    )


def _steps(
    computation: Computation, running: list[Instruction], slots: dict[Instruction, int]
) -> tuple[Step, ...]:
    """The steps, last first, so that the first reader met is the last to read."""
    alive = {computation.root}
    sized = any(i.shape.is_dynamic for i in running)
    steps: list[Step] = []
    for i in reversed(running):
        read = dict.fromkeys((i, *i.operands))
        dead = tuple(slots[x] for x in read if x not in alive and x.opcode != "constant")
        alive.update(i.operands)
        meaning = direct(i) or MEANING.get(i.opcode) or unknown
        if sized:
            meaning = fitting(i, meaning)
        steps.append(
            Step(
                i,
                meaning,
                isgeneratorfunction(meaning),
                tuple(slots[x] for x in i.operands),
                slots[i],
                dead,
            )
        )
    return tuple(reversed(steps))


def unknown(i: Instruction, context: Any, *values: EvalValue) -> EvalValue:
    """The meaning of an opcode that has none."""
    raise EvalError(f"{i.opcode} has no meaning here")


_IMPURE_FAMILIES = frozenset(("host", "collective", "async_", "call", "random"))
HOISTED_BYTES = 1 << 26
"""Larger values are not kept between runs."""


def hoisted(prepared: StepList, context: Any) -> StepList:
    """The same with every step done that depends on constants only: for what runs repeatedly."""
    template = prepared.template.copy()
    known = {k for k, value in enumerate(template) if value is not None}
    steps: list[Step] = []
    for step in prepared.steps:
        i = step.instruction
        if step.waits or not known.issuperset(step.operands) or not _is_pure(i):
            steps.append(step)
            continue
        value = normalised(step.meaning(i, context, *[template[k] for k in step.operands]), i)
        if isinstance(value, np.ndarray) and value.nbytes > HOISTED_BYTES:
            steps.append(step)
            continue
        template[step.slot] = value
        known.add(step.slot)
    return StepList(
        prepared.computation, tuple(steps), template, prepared.parameters, prepared.root
    )


def _is_pure(i: Instruction) -> bool:
    """Whether the same operands always give the same value."""
    return OPS[i.opcode].family not in _IMPURE_FAMILIES and not any(
        not _is_pure(x) for c in i.called for x in c.instructions
    )


def known_combiner(computation: Computation) -> str | None:
    """See `EvalContext.known_combiner`."""
    root, parameters = computation.root, computation.parameters
    if root.opcode not in KNOWN_COMBINERS or len(parameters) != 2:
        return None
    if set(root.operands) != set(parameters):
        return None
    return root.opcode
