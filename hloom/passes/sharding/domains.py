"""Domains of a computation: what stands between `domain` instructions, and what they say of it.

Values that reach each other without a `domain` between them are one *domain*. Its sharding is what
the instructions on its border say of it: `entry` of those that it reads, `exit` of those that read
it. `{}` is said of a domain whose values have no sharding.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.values.sharding import Sharding

NOTHING = Sharding("tuple")
"""How a domain says that there is no sharding on a side: `{}`."""


def said(sharding: Sharding | None) -> Sharding:
    """What a domain says of a side with this sharding."""
    return NOTHING if sharding is None else sharding.without_metadata()


def same(a: Sharding | None, b: Sharding | None) -> bool:
    """Whether nothing changes between two values; metadata does not count."""
    return said(a).same(said(b))


@dataclass(slots=True, eq=False)
class DomainMembers:
    """Values with no `domain` between them."""

    members: list[Instruction] = field(default_factory=list)
    stated: list[tuple[Instruction, Sharding]] = field(default_factory=list)
    """The `domain` instructions on its border, and what each says of this side."""


def domains_of(c: Computation) -> list[DomainMembers]:
    """The domains that at least one `domain` instruction borders on, in program order."""
    order = c.in_order()
    if all(i.opcode != "domain" for i in order):
        return []
    of: dict[Instruction, DomainMembers] = {}
    for start in order:
        if start.opcode != "domain" and start not in of:
            _collect(start, of)
    return [d for d in dict.fromkeys(of.values()) if d.stated]


def _collect(start: Instruction, of: dict[Instruction, DomainMembers]) -> None:
    domain = DomainMembers()
    of[start] = domain
    stack = [start]
    while stack:
        i = stack.pop()
        domain.members.append(i)
        for x in i.operands:
            if x.opcode == "domain":
                domain.stated.append((x, x.attrs.domain.entry))
            elif x not in of:
                of[x] = domain
                stack.append(x)
        for y in i.users:
            if y.opcode == "domain":
                domain.stated.append((y, y.attrs.domain.exit))
            elif y not in of:
                of[y] = domain
                stack.append(y)
