"""Patterns: the left side of a rule, written as the expression it matches.

    m.add(m.multiply(x, c), y, name="sum")

A pattern is data; `compiled` turns it once into a function of nested closures, so that matching
an instruction walks no pattern objects. Operands of commutative operations are tried both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.ir.op import opcodes as opcodes_with
from hloom.ir.traits import COMMUTATIVE

Bindings = dict[str, Instruction]
Match = Callable[[Instruction, Bindings], bool]
SWAPS = opcodes_with(COMMUTATIVE)


@dataclass(frozen=True)
class Pattern:
    """Matches an instruction and gives names to its parts.

    `opcodes` None matches any value. `where` is a further condition on the instruction. The same
    name in two places must mean the same value.
    """

    opcodes: frozenset[str] | None = None
    operands: tuple[Pattern, ...] | None = None
    name: str | None = None
    one_user: bool = False
    where: Callable[[Instruction], bool] | None = None
    value: int | float | None = None
    """For a constant: the value all its elements have (`where` checks it; tests draw it)."""

    def names(self) -> set[str]:
        """Every name the pattern gives."""
        inner = {n for p in self.operands or () for n in p.names()}
        return inner | {self.name} if self.name else inner

    def named(self, name: str) -> Pattern:
        return replace(self, name=name)

    def match(self, i: Instruction) -> Bindings | None:
        """What each name means if the pattern matches `i`."""
        bindings: Bindings = {}
        return bindings if compiled(self)(i, bindings) else None

    def may_match(self, count: int, opcodes: Sequence[str] | None) -> bool:
        """Whether it may match an instruction, which is of its opcode, of so many operands, made
        by these opcodes (None: whatever makes them)."""
        if self.operands is None:
            return True
        if len(self.operands) != count:
            return False
        if opcodes is None:
            return True
        orders = [opcodes]
        if count == 2 and self.opcodes is not None and self.opcodes <= SWAPS:
            orders.append(opcodes[::-1])
        return any(
            all(p.opcodes is None or x in p.opcodes for p, x in zip(self.operands, order))
            for order in orders
        )

    def __str__(self) -> str:
        if self.opcodes is None:
            return self.name or "_"
        ops = "|".join(sorted(self.opcodes)) if len(self.opcodes) < 4 else "<op>"
        inner = "" if self.operands is None else ", ".join(map(str, self.operands))
        return f"{ops}({inner})"


@cache
def compiled(pattern: Pattern) -> Match:
    """The pattern as one function of an instruction and the names found so far."""
    opcodes, name = pattern.opcodes, pattern.name
    if opcodes is None and pattern.where is None and not pattern.one_user:
        return _any_value(name)
    only = next(iter(opcodes)) if opcodes is not None and len(opcodes) == 1 else None
    operands = None if pattern.operands is None else tuple(compiled(p) for p in pattern.operands)
    inner = _operands(operands, opcodes)
    where, one_user = pattern.where, pattern.one_user

    def match(i: Instruction, bindings: Bindings) -> bool:
        if only is not None:
            if i.opcode != only:
                return False
        elif opcodes is not None and i.opcode not in opcodes:
            return False
        if one_user and len(i.users) != 1:
            return False
        if where is not None and not where(i):
            return False
        if inner is not None and not inner(i, bindings):
            return False
        return name is None or bindings.setdefault(name, i) is i

    return match


def _any_value(name: str | None) -> Match:
    if name is None:
        return lambda i, bindings: True
    return lambda i, bindings: bindings.setdefault(name, i) is i


def _operands(operands: tuple[Match, ...] | None, opcodes: frozenset[str] | None) -> Match | None:
    """Matches the operands in order; for a commutative operation in either order."""
    if operands is None:
        return None
    count = len(operands)
    if count == 1:
        first = operands[0]
        return lambda i, bindings: len(i.operands) == 1 and first(i.operands[0], bindings)
    if count == 2:
        one, two = operands
        swaps = opcodes is not None and opcodes <= SWAPS

        def match_two(i: Instruction, bindings: Bindings) -> bool:
            both = i.operands
            if len(both) != 2:
                return False
            a, b = both
            if not swaps:
                return one(a, bindings) and two(b, bindings)
            before = dict(bindings)
            if one(a, bindings) and two(b, bindings):
                return True
            bindings.clear()
            bindings.update(before)
            return one(b, bindings) and two(a, bindings)

        return match_two

    def match_all(i: Instruction, bindings: Bindings) -> bool:
        if len(i.operands) != count:
            return False
        for matches, operand in zip(operands, i.operands, strict=True):
            if not matches(operand, bindings):
                return False
        return True

    return match_all


def _opcode_of(attribute: str) -> str:
    opcode = attribute.rstrip("_").replace("_", "-")
    if opcode not in OPS:
        raise AttributeError(f"no operation named {opcode!r}")
    return opcode


class _Ops:
    """`m.transpose(x, name="t")` for every declared operation; `_` stands for `-`."""

    def __getattr__(self, attribute: str) -> Callable[..., Pattern]:
        opcode = _opcode_of(attribute)

        def make(
            *operands: Pattern,
            name: str | None = None,
            one_user: bool = False,
            where: Callable[[Instruction], bool] | None = None,
        ) -> Pattern:
            inner = operands or (None if OPS[opcode].operand_count != 0 else ())
            return Pattern(frozenset([opcode]), inner, name, one_user, where)

        return make


m = _Ops()


def any_of(
    opcodes: Any,
    *operands: Pattern,
    name: str | None = None,
    one_user: bool = False,
    where: Callable[[Instruction], bool] | None = None,
) -> Pattern:
    """Matches any of several operations."""
    return Pattern(frozenset(opcodes), operands or None, name, one_user, where)


def var(name: str, where: Callable[[Instruction], bool] | None = None) -> Pattern:
    """Matches any value."""
    return Pattern(name=name, where=where)


def _is_constant(i: Instruction) -> bool:
    return not i.attrs.literal.is_elided


def constant(name: str | None = None, value: int | float | None = None) -> Pattern:
    """Matches a constant, or a broadcast of a scalar constant, all of whose elements are `value`
    (any known constant when `value` is None)."""
    if value is None:
        return Pattern(frozenset(["constant"]), (), name, False, _is_constant)
    constant_value = value

    def is_all(i: Instruction) -> bool:
        if i.opcode == "broadcast":
            i = i.operands[0]
        if i.opcode != "constant" or i.attrs.literal.is_elided or not i.shape.is_array:
            return False
        return i.attrs.literal.is_all(constant_value)

    return Pattern(frozenset(["constant", "broadcast"]), None, name, False, is_all, value)
