"""Recognises attention: a dot, a softmax along its last dimension, and a dot with the result.

    scores = dot(q, k);  s = scale, mask, soft cap of scores (elementwise)
    e = exp(s - max(s));  p = e / sum(e);  out = dot(p, v)

Converts, reshapes, transposes and broadcasts of dimensions may stand anywhere between; that is
what frontends put there. The answer names the parts, or says what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloom.analysis.fusible import POINT, reduces_minor, role
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
    members: tuple[Instruction, ...]
    """Everything from the first dot to the second, operands first, both included."""


def attention_pattern(output: Instruction) -> Attention | str:
    """The attention whose last instruction is this dot; a text says why it is none."""
    if output.opcode != "dot":
        return "no dot"
    why = "no softmax is read"
    for side, x in enumerate(output.operands):
        division = through(x, PASSING)
        if division.opcode != "divide":
            continue
        found = _softmax(division)
        if isinstance(found, str):
            why = found
            continue
        masked, maximum, total = found
        inside = _members(output, side)
        if isinstance(inside, str):
            return inside
        dots = [p for p in inside if p.opcode == "dot" and p is not output]
        if len(dots) != 1:
            return f"the scores come from {len(dots)} dots"
        return Attention(dots[0], masked, maximum, total, division, output, side, tuple(inside))
    return why


def through(x: Instruction, opcodes: frozenset[str]) -> Instruction:
    """What is below operations of one operand that only pass values on."""
    while x.opcode in opcodes:
        x = x.operands[0]
    return x


def _softmax(division: Instruction) -> tuple[Instruction, Instruction, Instruction] | str:
    """What the softmax is of, its maximum and its sum."""
    e = through(division.operands[0], PASSING)
    total = through(division.operands[1], SPREADING)
    if e.opcode != "exponential":
        return "what is divided is no exponential"
    if not _is_fold(total, "add") or through(total.operands[0], PASSING) is not e:
        return "it is not divided by its sum"
    difference = through(e.operands[0], PASSING)
    if difference.opcode != "subtract":
        return "no maximum is subtracted"
    masked = difference.operands[0]
    maximum = through(difference.operands[1], SPREADING)
    if maximum.opcode == "maximum":  # with a least value, against rows that are masked whole
        folds = [through(x, SPREADING) for x in maximum.operands]
        maximum = next((x for x in folds if x.opcode == "reduce"), maximum)
    if not _is_fold(maximum, "maximum"):
        return "what is subtracted is no maximum"
    if through(maximum.operands[0], PASSING) is not through(masked, PASSING):
        return "the maximum is of something else"
    return masked, maximum, total


def _is_fold(x: Instruction, by: str) -> bool:
    return (
        x.opcode == "reduce"
        and x.shape.is_array
        and x.called[0].root.opcode == by
        and reduces_minor(x)
    )


def _members(output: Instruction, side: int) -> list[Instruction] | str:
    """The instructions from the first dot to the last that read one another alone."""
    inside: dict[Instruction, None] = {output: None}
    stack = [output.operands[side]]
    below: set[Instruction] = set()
    while stack:
        p = stack.pop()
        if p in below:
            continue
        below.add(p)
        if len(below) > MOST:
            return "too much stands between the dots"
        if p.opcode != "dot" and p.opcode not in LEAVES and role(p)[0] in (POINT, "fold"):
            stack.extend(p.operands)
    dots = [p for p in below if p.opcode == "dot"]
    order = [p for p in output.parent.in_order() if p in below]
    reach: set[Instruction] = set(dots)
    for p in order:
        if p in reach or (p.opcode not in LEAVES and not reach.isdisjoint(p.operands)):
            reach.add(p)
            inside[p] = None
    for p in inside:
        if p is not output and (p.is_root or any(u not in inside for u in p.users)):
            return f"%{p.name} is read elsewhere as well"
    for p in order:  # masks, scales: what is cheap comes along
        if p not in inside and p.opcode in ("constant", "iota", "broadcast"):
            inside.setdefault(p)
    position = {p: k for k, p in enumerate(order)}
    return sorted(inside, key=lambda p: position.get(p, len(order)))
