"""The value of one instruction when only some of what it depends on is known.

Values are asked for backwards from the instruction, and only the parts of tuples that are needed,
so an unknown element of a tuple does not hide the others. What cannot be known is an error that
names it; there is no guessing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError, HloError
from hloom.interp.arguments import as_value
from hloom.interp.context import DevicePosition, EvalContext, EvalOptions
from hloom.interp.machine import SharedEvaluation, evaluate_step
from hloom.interp.memory import check_memory
from hloom.interp.values import (
    MORE_MEMORY,
    EvalValue,
    check_value_size,
    from_literal,
    nesting_limit,
    refused,
    to_literal,
    value_bytes,
)
from hloom.ir.async_chain import argument
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS, opcodes
from hloom.ir.traits import FORWARDS, HANDS_OPERANDS
from hloom.types.literal import Literal

Path = tuple[int, ...]
Part = tuple[Instruction, Path]
"""An element of the value of an instruction, `()` the whole."""

_PASSED_ON = opcodes(FORWARDS, also=("copy", "async-update"))
"""Operations whose elements are those of their first operand."""
_CALLS = opcodes(HANDS_OPERANDS)
"""Callers whose operands are the parameters of what they call."""
_DEEPEST = 10_000
"""Longer paths into tuples come only from a value that is said to be an element of itself."""
_UNKNOWN_FAMILIES = frozenset(("host", "collective"))
_UNKNOWN = frozenset(("rng", "rng-get-and-update-state"))


def evaluate_partially(
    instruction: Instruction,
    known: Mapping[Instruction, Any] | None = None,
    substitutions: Mapping[Instruction, Any] | None = None,
    *,
    options: EvalOptions | None = None,
) -> Literal:
    """The value of an instruction from the values of others.

    `known` gives values (literals or arrays) of some instructions. `substitutions` replace
    instructions, by a value or by another instruction that is evaluated instead. The value of a
    parameter is that of the caller's operand, when its computation has exactly one caller and
    that is a call, a fusion, an async-start or a conditional. Raises `EvalError` naming what is
    not known: a parameter, a random number, or what comes from the host or from other devices.
    """
    finder = _Finder(known or {}, substitutions or {}, options or EvalOptions())
    with np.errstate(all="ignore"), nesting_limit():
        try:
            return to_literal(finder.value((instruction, ())), instruction.shape)
        except HloError:
            raise
        except Exception as error:
            raise refused(error, instruction) from error


class _Finder:
    """What has been found so far. The stack is explicit: chains are as long as programs."""

    def __init__(
        self,
        known: Mapping[Instruction, Any],
        substitutions: Mapping[Instruction, Any],
        options: EvalOptions,
    ) -> None:
        self.known = {**known, **substitutions}
        self.results: dict[Part, EvalValue] = {}
        self.held_bytes = 0
        self.context = EvalContext(SharedEvaluation(options), options, DevicePosition())

    def value(self, asked_part: Part) -> EvalValue:
        stack = [asked_part]
        open_: set[Part] = set()
        while stack:
            part = stack[-1]
            if part in self.results:
                stack.pop()
                continue
            if len(part[1]) > _DEEPEST:
                raise EvalError("depends on an element of itself", instruction=f"%{part[0].name}")
            parts = self._needs(part)
            missing = [p for p in parts if p not in self.results]
            if missing:
                if part in open_:
                    raise EvalError("depends on itself", instruction=f"%{part[0].name}")
                open_.add(part)
                stack.extend(missing)
                continue
            self.results[part] = self._computed(part, parts)
            open_.discard(part)
            stack.pop()
        return self.results[asked_part]

    def _needs(self, part: Part) -> list[Part]:
        """The parts this part is made from."""
        i, path = part
        if i in self.known:
            known = self.known[i]
            return [(known, path)] if isinstance(known, Instruction) else []
        other = self._elsewhere(i, path)
        if other is not None:
            return [other]
        if path:
            return [(i, ())]
        _check_knowable(i)
        if i.opcode == "get-dimension-size" and not i.operands[0].shape.is_dynamic:
            return []
        return [(x, ()) for x in i.operands]

    def _elsewhere(self, i: Instruction, path: Path) -> Part | None:
        """The part of another instruction that this part is, without computing anything."""
        opcode = i.opcode
        if opcode == "get-tuple-element":
            return i.operands[0], (i.attrs.index, *path)
        if opcode == "tuple" and path:
            return i.operands[path[0]], path[1:]
        if opcode in _PASSED_ON and i.operands:
            return i.operands[0], path
        if opcode == "parameter":
            return caller_value(i), path
        return None

    def _computed(self, part: Part, parts: list[Part]) -> EvalValue:
        i, path = part
        if i in self.known:
            known = self.known[i]
            if isinstance(known, Instruction):
                return self.results[parts[0]]
            value = from_literal(known) if isinstance(known, Literal) else known
            return _element(as_value(value, i.shape, f"the value of %{i.name}"), path)
        if len(parts) == 1 and parts[0] == (i, ()):
            return _element(self.results[parts[0]], path)
        if parts and parts[0] == self._elsewhere(i, path):
            return self.results[parts[0]]
        if i.opcode == "constant":
            return from_literal(i.attrs.literal)
        if i.opcode == "get-dimension-size" and not parts:
            return np.array(i.operands[0].shape.dims[i.attrs.dimensions[0]], np.int32)
        self._hold(i)
        return evaluate_step(i, [self.results[p] for p in parts], self.context)

    def _hold(self, i: Instruction) -> None:
        """Count what a value takes, before it is made: everything found stays."""
        limit = self.context.options.memory_limit_bytes
        check_value_size(i, limit)
        if i.opcode not in ("tuple", "broadcast", "iota"):
            self.held_bytes += value_bytes(i.shape)
        for c in i.called:
            check_memory(c, limit)
        if self.held_bytes > limit:
            raise EvalError(
                f"the values this depends on take more than {limit} bytes",
                instruction=f"%{i.name}",
                hint=MORE_MEMORY,
            )


def _element(value: EvalValue, path: Path) -> EvalValue:
    for k in path:
        value = value[k]
    return value


def caller_value(parameter: Instruction) -> Instruction:
    """The caller's operand that a parameter stands for; `EvalError` when there is not just one."""
    computation = parameter.parent
    count = sum(computation.callers.values())
    if count != 1:
        why = "nobody calls" if count == 0 else f"{count} callers share"
        raise EvalError(
            f"the parameter's value is not known: {why} computation %{computation.name}",
            instruction=f"%{parameter.name}",
            hint="give it in `known` or `substitutions`",
        )
    (caller,) = computation.callers
    number = parameter.attrs.number
    if caller.opcode in _CALLS:
        return argument(caller, number)
    if caller.opcode == "conditional":
        return caller.operands[1 + caller.called.index(computation)]
    raise EvalError(
        f"the parameter's value is not known: {caller.opcode} %{caller.name} may call its "
        "computation with many values",
        instruction=f"%{parameter.name}",
        hint="give it in `known` or `substitutions`",
    )


def _check_knowable(i: Instruction) -> None:
    """`EvalError` when the value depends on more than the operands, inside calls too."""
    stack, seen = [i], set()
    while stack:
        x = stack.pop()
        if x.opcode in _UNKNOWN or OPS[x.opcode].family in _UNKNOWN_FAMILIES:
            inside = "" if x is i else f" inside %{i.name}"
            raise EvalError(
                f"the value of {x.opcode}{inside} is not known before the program runs",
                instruction=f"%{x.name}",
                hint="give it in `known` or `substitutions`",
            )
        for c in x.called:
            if c not in seen:
                seen.add(c)
                stack.extend(c.instructions)
