"""Recognises attention: a dot, a softmax of it, and a dot with the result.

    scores = dot(q, k);  s = scale, mask, soft cap of scores (elementwise)
    e = exp(s - max(s));  p = e / sum(e);  out = dot(p, v)

Converts, reshapes, transposes and broadcasts of dimensions may stand anywhere between; that is
what frontends put there. The answer names the parts, or says what is missing; whether the softmax
runs along the right dimension is for `attention_form.py` to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from hloom.analysis.fusible import POINT, role
from hloom.ir.instruction import Instruction

PASSING = frozenset("convert reshape bitcast transpose copy reduce-precision".split())
SPREADING = PASSING | {"broadcast"}
LEAVES = frozenset("constant iota parameter".split())
MOST = 120
"""Instructions between the two dots that are looked at."""


@dataclass(frozen=True)
class Attention:
    """One attention."""

    scores: Instruction
    """The first dot."""
    masked: Instruction
    """What the softmax is of."""
    maximum: Instruction
    total: Instruction
    probabilities: Instruction
    """The division."""
    output: Instruction
    """The second dot."""
    probabilities_side: int
    """Which operand of the second dot the probabilities are."""
    floors: tuple[Instruction, ...]
    """What the maximum is compared with before it is subtracted."""
    total_floors: tuple[Instruction, ...]
    """What the sum is compared with before it divides."""
    members: tuple[Instruction, ...]
    """Everything from the first dot to the second, operands first, both included; with masks that
    are computed from nothing but constants."""
    dependent: frozenset[Instruction]
    """The members that come from the first dot."""

    @property
    def values_side(self) -> int:
        """Which operand of the second dot the values are."""
        return 1 - self.probabilities_side


def attention_pattern(output: Instruction) -> Attention | str:
    """The attention whose last instruction is this dot; a text says why it is none."""
    if output.opcode != "dot":
        return "no dot"
    why = "no softmax is read"
    for side, x in enumerate(output.operands):
        division = through(x, PASSING)
        if division.opcode != "divide":
            continue
        softmax = softmax_of(division)
        if isinstance(softmax, str):
            why = softmax
            continue
        inside = _members(output, side)
        if isinstance(inside, str):
            return inside
        members, dependent = inside
        dots = [p for p in dependent if p.opcode == "dot" and p is not output]
        if len(dots) != 1:
            return f"the scores come from {len(dots)} dots"
        return Attention(
            dots[0],
            softmax.masked,
            softmax.maximum,
            softmax.total,
            division,
            output,
            side,
            softmax.floors,
            softmax.total_floors,
            tuple(members),
            frozenset(dependent),
        )
    return why


def through(x: Instruction, opcodes: frozenset[str]) -> Instruction:
    """What is below operations of one operand that only pass values on."""
    while x.opcode in opcodes:
        x = x.operands[0]
    return x


class Softmax(NamedTuple):
    """What a softmax is made of."""

    masked: Instruction
    """What it is of."""
    maximum: Instruction
    total: Instruction
    floors: tuple[Instruction, ...]
    """What the maximum is compared with before it is subtracted."""
    total_floors: tuple[Instruction, ...]
    """What the sum is compared with before it divides."""


def softmax_of(division: Instruction) -> Softmax | str:
    """The softmax that ends with a division; a text says why it is none."""
    e = through(division.operands[0], PASSING)
    total, total_floors = _floored(division.operands[1])
    if e.opcode != "exponential":
        return "what is divided is no exponential"
    if not is_fold(total, "add") or through(total.operands[0], PASSING) is not e:
        return "it is not divided by its sum"
    difference = through(e.operands[0], PASSING)
    if difference.opcode != "subtract":
        return "no maximum is subtracted"
    masked = difference.operands[0]
    maximum, floors = _floored(difference.operands[1])
    if not is_fold(maximum, "maximum"):
        return "what is subtracted is no maximum"
    if through(maximum.operands[0], PASSING) is not through(masked, PASSING):
        return "the maximum is of something else"
    return Softmax(masked, maximum, total, floors, total_floors)


def _floored(x: Instruction) -> tuple[Instruction, tuple[Instruction, ...]]:
    """A fold, and what it is compared with from above: a least value of rows masked whole."""
    x, floors = through(x, SPREADING), []
    while x.opcode == "maximum":
        sides = [through(y, SPREADING) for y in x.operands]
        below = next((y for y in sides if y.opcode in ("reduce", "maximum")), None)
        if below is None:
            break
        floors += [y for y in sides if y is not below]
        x = below
    return x, tuple(floors)


def is_fold(x: Instruction, by: str) -> bool:
    """Whether it is a reduce by one operation of its two parameters."""
    if x.opcode != "reduce" or not x.shape.is_array:
        return False
    root = x.called[0].root
    operands = set(root.operands)
    return (
        root.opcode == by and len(operands) == 2 and all(p.opcode == "parameter" for p in operands)
    )


def _members(output: Instruction, side: int) -> tuple[list[Instruction], list[Instruction]] | str:
    """The instructions from the first dot to the last that read one another alone, and those of
    them that come from the first dot; operands first."""
    order = _below(output.operands[side])
    if order is None:
        return "too much stands between the dots"
    dependent: dict[Instruction, None] = {}
    members: dict[Instruction, None] = {}
    for p in order:
        if p.opcode == "dot" or not dependent.keys().isdisjoint(p.operands):
            dependent[p] = None
        elif is_made_up(p, members):
            members[p] = None
    dependent[output] = None
    for p in dependent:
        if p is not output and (p.is_root or any(u not in dependent for u in p.users)):
            return f"%{p.name} is read elsewhere as well"
    for p in dependent:
        if p is not output and p.opcode != "dot" and role(p)[0] not in (POINT, "fold"):
            return f"%{p.name}: {p.opcode} stands between the dots"
    return [p for p in (*order, output) if p in dependent or p in members], list(dependent)


def _below(top: Instruction) -> list[Instruction] | None:
    """What an instruction is computed from, down to dots and what is no part of a kernel, operands
    first; None if that is too much."""
    done: dict[Instruction, None] = {}
    met: set[Instruction] = set()
    stack = [top]
    while stack:
        p = stack[-1]
        if p in done:
            stack.pop()
            continue
        met.add(p)
        if len(met) > MOST:
            return None
        waiting: list[Instruction] = []
        if p.opcode != "dot" and p.opcode not in LEAVES and role(p)[0] in (POINT, "fold"):
            waiting = [x for x in p.operands if x not in done]
        if waiting:
            stack.extend(waiting)
        else:
            done[p] = None
            stack.pop()
    return list(done)


def is_made_up(p: Instruction, others: dict[Instruction, None]) -> bool:
    """Whether a value is small, spread over the scores (a mask, a scale), or follows from such."""
    if role(p)[0] != POINT:
        return False
    if p.opcode in ("constant", "iota", "broadcast"):
        return True
    return bool(p.operands) and all(x in others for x in p.operands)
