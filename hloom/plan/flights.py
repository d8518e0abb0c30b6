"""Computations in two halves, from start to done, as branches that share no memory with others.

What neither leads to the start nor follows from the done may be under way with the computation,
wherever it stands in the order: what it touches gets places of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir.async_chain import async_start_of
from hloom.ir.instruction import Instruction
from hloom.plan.branches import Branches, BranchPlan
from hloom.plan.order import Order


def flights(order: Order) -> BranchPlan:
    """The branches of each computation that starts another one, which calls a program."""
    plans = {}
    for c, steps in order.steps.items():
        starts = [
            i for i in steps if i.opcode == "async-start" and i.called[0].root.opcode == "call"
        ]
        if starts:
            plans[c.name] = _branches(steps, starts)
    return plans


def _branches(steps: Sequence[Instruction], starts: Sequence[Instruction]) -> Branches:
    """A branch for each start, and one for all steps that are free of the same starts."""
    number = {start: k for k, start in enumerate(starts)}
    behind = _behind(steps, number)
    leads = _leading(steps, number)
    every = (1 << len(starts)) - 1
    of: dict[str, int] = {}
    groups: dict[int, int] = {}
    beside = [0] * len(starts)
    for i in steps:
        k = number.get(i)
        free = every & ~(behind.get(i, 0) | leads.get(i, 0))
        if k is not None:
            of[i.name] = k
            beside[k] |= free & ~(1 << k)
        else:
            of[i.name] = groups.setdefault(free, len(starts) + len(groups))
    for free, group in groups.items():
        beside.append(free)
        for k in range(len(starts)):
            beside[k] |= (free >> k & 1) << group
    return Branches(of, tuple(beside))


def _behind(steps: Sequence[Instruction], number: dict[Instruction, int]) -> dict[Instruction, int]:
    """For each step the bits of the starts whose done is it or comes before it."""
    bits_of: dict[Instruction, int] = {}
    for i in steps:
        bits = 0
        for x in (*i.operands, *i.control_predecessors):
            bits |= bits_of.get(x, 0)
        if i.opcode == "async-done" and (start := async_start_of(i)) in number:
            bits |= 1 << number[start]
        bits_of[i] = bits
    return bits_of


def _leading(
    steps: Sequence[Instruction], number: dict[Instruction, int]
) -> dict[Instruction, int]:
    """For each step the bits of the starts that need it; a start needs itself."""
    bits_of: dict[Instruction, int] = {}
    for i in reversed(steps):
        bits = bits_of.get(i, 0) | (1 << number[i] if i in number else 0)
        bits_of[i] = bits
        for x in (*i.operands, *i.control_predecessors):
            bits_of[x] = bits_of.get(x, 0) | bits
    return bits_of
