"""A rule: a pattern, and a function from what it found to what should stand there instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from hloom.ir.instruction import Instruction
from hloom.rewrite.pattern import Pattern, compiled


@dataclass(frozen=True, slots=True)
class Declined:
    """A rule matched but will not act; kept so that tools can say why."""

    reason: str

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, eq=False)
class Rule:
    """One rewrite. `law` is the first line of its docstring: `before  =>  after`.

    `build` gets a builder and the values of the names in `wants`. It returns the value that takes
    the place of what matched, None when the rule does not apply, or `Declined(why)`.
    """

    name: str
    law: str
    pattern: Pattern
    build: Callable[..., Instruction | Declined | None]
    wants: tuple[str, ...]

    @property
    def match(self) -> Callable[[Instruction, dict[str, Instruction]], bool]:
        return compiled(self.pattern)


def rule(pattern: Pattern) -> Callable[[Callable[..., Instruction | Declined | None]], Rule]:
    """Make a rule of a function whose parameters are a builder and names from `pattern`.

    Raises `TypeError` when the function has no law, asks for a name the pattern does not give, or
    the pattern could match any value.
    """

    def make(build: Callable[..., Instruction | Declined | None]) -> Rule:
        name = getattr(build, "__name__", "rule")
        if pattern.opcodes is None:
            raise TypeError(f"{name} must start from an operation, not from any value")
        wants = tuple(inspect.signature(build).parameters)[1:]
        law = (build.__doc__ or "").strip().split("\n")[0]
        if unknown := set(wants) - pattern.names():
            raise TypeError(f"{name} asks for {unknown}, which its pattern does not name")
        if "=>" not in law:
            raise TypeError(f"{name} needs a docstring that starts with its law: before => after")
        return Rule(name, law, pattern, build, wants)

    return make
