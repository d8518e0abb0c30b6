"""Facts: what passes need, give and break. A fact can be checked on a module.

A pass *needs* what must hold for it to do its work: without it, it would find nothing, or leave
what nobody after it expects. It *gives* what holds of every module that it has run on. It *breaks*
what may have held before and need not afterwards. `KnownFacts` follows these through passes,
pipelines in pipelines and fixed points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from hloom.ir.module import Module


@dataclass(frozen=True)
class Fact:
    """Something true of a module; `law` says it in words, `holds` checks it."""

    name: str
    law: str
    holds: Callable[[Module], bool]
    opcodes: frozenset[str] = frozenset()
    """Those of which there are no instructions, where the fact says that."""

    def __str__(self) -> str:
        return self.name


def fact(holds: Callable[[Module], bool]) -> Fact:
    """Make a fact of a function; its docstring says the fact in words."""
    return Fact(getattr(holds, "__name__", "fact"), (holds.__doc__ or "").strip(), holds)


@cache
def without(*opcodes: str) -> Fact:
    """The fact that no instruction has one of these opcodes."""
    known = frozenset(opcodes)
    return Fact(
        f"without {', '.join(opcodes)}",
        f"No instruction is a {' or '.join(opcodes)}.",
        lambda module: not any(i.opcode in known for i in module.instructions()),
        known,
    )


@fact
def no_dead_code(module: Module) -> bool:
    """Every instruction is read, or a root, or has effects; every computation is called."""
    from hloom.rewrite.driver import is_removable

    for c in module.computations:
        if not c.callers and not c.is_entry:
            return False
        if any(not i.users and not i.is_root and is_removable(i) for i in c.instructions):
            return False
    return True


@fact
def loops_own_bodies(module: Module) -> bool:
    """The body and the condition of a loop are called by that loop alone, once."""
    return all(
        sum(c.callers.values()) == 1
        for i in module.instructions()
        if i.opcode == "while"
        for c in i.called
    )


class Claims(NamedTuple):
    """What a pass says of itself."""

    needs: tuple[Fact, ...] = ()
    gives: tuple[Fact, ...] = ()
    breaks: tuple[Fact, ...] = ()


@dataclass
class KnownFacts:
    """What is known to hold while passes run one after another; `add` refuses an impossible one.

    `needs` collects what the passes so far need from before the first of them, `breaks` what they
    may have broken and not given again.
    """

    title: str
    assumes: tuple[Fact, ...] | None = ()
    """What may be needed from before; None: anything."""
    holds: dict[Fact, str] = field(default_factory=dict)
    """Each fact that holds now, and which pass gave it."""
    broken: dict[Fact, str] = field(default_factory=dict)
    needs: dict[Fact, None] = field(default_factory=dict)

    def add(self, name: str, claims: Claims) -> None:
        """Let a pass run next; `ValueError` where it needs what does not hold."""
        for need in claims.needs:
            if need in self.holds:
                continue
            if need in self.broken:
                raise self.refused(name, need, f"{self.broken[need]} broke it")
            if self.assumes is not None and need not in self.assumes:
                raise self.refused(name, need, "nothing before gives it")
            self.needs[need] = None
        self.step(name, claims)

    def step(self, name: str, claims: Claims) -> None:
        """What holds after a pass."""
        for lost in claims.breaks:
            self.holds.pop(lost, None)
            self.broken[lost] = name
        for fact in claims.gives:
            self.holds[fact] = name
            self.broken.pop(fact, None)

    def refused(self, name: str, need: Fact, why: str) -> ValueError:
        return ValueError(f"{self.title}: {name} needs {need}, but {why}: {need.law}")


def needed_before(steps: Iterable[tuple[str, Claims]]) -> tuple[Fact, ...]:
    """What passes in this order need to hold before the first of them."""
    order = KnownFacts("passes", None)
    for name, claims in steps:
        order.add(name, claims)
    return tuple(order.needs)
