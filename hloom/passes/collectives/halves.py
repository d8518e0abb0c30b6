"""The halves of a collective: which one a start begins, where it ends, and whether it is said to
be synchronous."""

from __future__ import annotations

from hloom.ir.computation import Computation
from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.passes.collectives.collective_config import set_said
from hloom.passes.expand.async_simplifier import wrapped_collective

SYNC = "is_sync"


def collective_of(start: Instruction) -> str | None:
    """The opcode of the collective that a start begins; None where it begins something else."""
    if start.opcode == "async-start":
        inner = wrapped_collective(start)
        return None if inner is None else inner.opcode
    kind = OPS[start.opcode].start_of
    return kind if kind in COLLECTIVES else None


def start_of(done: Instruction) -> Instruction | None:
    """The start of a done that follows it directly."""
    if done.op.done_of is None or not done.operands:
        return None
    start = done.operands[0]
    return start if start.opcode == done.op.done_of else None


def done_of(start: Instruction) -> Instruction | None:
    """The done of a start that nothing else reads."""
    if start.is_root or len(start.users) != 1:
        return None
    (reader,) = start.users
    return reader if reader.op.done_of == start.opcode else None


def set_sync(start: Instruction) -> bool:
    """Say in the backend config that a start waits for its end; whether that is new. All else
    that the config says stays."""
    return set_said(start, SYNC, True)


def starts_in(module: Module) -> list[Instruction]:
    """Every start of a collective."""
    return [i for i in module.instructions() if collective_of(i) is not None]


def erase_starts(c: Computation) -> int:
    """Erase starts of collectives that no done reads any more; how many that were."""
    dead = [i for i in c.instructions if not i.users and not i.is_root and collective_of(i)]
    for i in dead:
        c.erase(i)
    return len(dead)
