"""Chains of asynchronous operations: a start, updates, a done; who began one, and what it binds."""

from __future__ import annotations

from hloom.ir.instruction import Instruction

STEPS = ("async-update", "async-done")


def async_start_of(i: Instruction) -> Instruction | None:
    """The async-start at the head of a chain of updates and a done."""
    while i.opcode in STEPS and i.operands:
        i = i.operands[0]
    return i if i.opcode == "async-start" else None


def bound_operands(start: Instruction) -> list[Instruction]:
    """What a start and the updates behind it hand to its computation, in order."""
    bound = list(start.operands)
    step = start
    while len(step.users) == 1:
        (step,) = step.users
        if step.opcode != "async-update":
            break
        bound += step.operands[1:]
    return bound


def argument(caller: Instruction, number: int) -> Instruction:
    """What a call, or a start with its updates, hands to a parameter of its computation."""
    if caller.opcode == "async-start" and number >= len(caller.operands):
        return bound_operands(caller)[number]
    return caller.operands[number]
