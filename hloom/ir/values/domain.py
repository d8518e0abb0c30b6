"""The two sides of a `domain` instruction: `{kind="sharding", entry={...}, exit={...}}`."""

from dataclasses import dataclass

from hloom.ir.text.cursor import Cursor
from hloom.ir.values.sharding import Sharding, parse_sharding


@dataclass(frozen=True, slots=True)
class Domain:
    """What changes between operand (`exit`) and user (`entry`) side; only shardings exist."""

    entry: Sharding
    exit: Sharding
    kind: str = "sharding"

    @property
    def text(self) -> str:
        return f'{{kind="{self.kind}", entry={self.entry.text}, exit={self.exit.text}}}'


def parse_domain(cursor: Cursor) -> Domain:
    """Read a domain; the three parts may come in any order, with or without commas."""
    start = cursor.skip()
    cursor.expect("{", "to start a domain")
    kind: str | None = None
    sides: dict[str, Sharding] = {}
    while not cursor.eat("}"):
        if kind is not None or sides:
            cursor.eat(",")
        at = cursor.skip()
        name = cursor.name("kind=, entry= or exit=")
        if name in sides or (name == "kind" and kind is not None):
            cursor.fail(f"{name}= is given twice in this domain", at, length=len(name))
        cursor.expect("=")
        if name == "kind":
            at = cursor.skip()
            kind = cursor.string()
            if kind != "sharding":
                cursor.fail(f"unknown domain kind {kind!r}; known: sharding", at)
        elif name in ("entry", "exit"):
            sides[name] = parse_sharding(cursor)
        else:
            cursor.fail(f"unknown part {name!r} of a domain", at, length=len(name))
    for name, side in (("kind", kind), ("entry", sides.get("entry")), ("exit", sides.get("exit"))):
        if side is None:
            cursor.fail(f"this domain has no {name}=", start)
    return Domain(sides["entry"], sides["exit"], kind or "sharding")
