"""Facts: what passes need, give and break. A fact can be checked on a module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hloom.ir.module import Module


@dataclass(frozen=True)
class Fact:
    """Something true of a module; `law` says it in words, `holds` checks it."""

    name: str
    law: str
    holds: Callable[[Module], bool]

    def __str__(self) -> str:
        return self.name


def fact(holds: Callable[[Module], bool]) -> Fact:
    """Make a fact of a function; its docstring says the fact in words."""
    return Fact(getattr(holds, "__name__", "fact"), (holds.__doc__ or "").strip(), holds)


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
def no_calls(module: Module) -> bool:
    """No instruction is a plain call that could be inlined."""
    return not any(i.opcode == "call" for i in module.instructions())


@fact
def flat_call_graph(module: Module) -> bool:
    """Every computation has at most one caller, which names it once."""
    return all(sum(c.callers.values()) <= 1 for c in module.computations)
