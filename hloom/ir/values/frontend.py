"""Free text that front ends attach to instructions, and statistics for display."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hloom.base.quoting import escape, unescape
from hloom.ir.text.cursor import Cursor
from hloom.ir.values.precision import show_number

_KEY = re.compile(r"\s*([A-Za-z_][\w.\-]*)\s*=\s*")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.S)
_RAW = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]', re.S)


def raw_end(text: str, start: int) -> int | None:
    """Where a raw value `{...}` starting here ends; None when it is not one.

    Braces balance outside of quoted strings; nothing else is asked of what is inside.
    """
    if not text.startswith("{", start):
        return None
    depth = 0
    for token_match in _RAW.finditer(text, start):
        token = token_match[0]
        if token == "{":
            depth += 1
        elif token == "}":
            depth -= 1
            if depth == 0:
                return token_match.end()
    return None


def is_raw(value: str) -> bool:
    """Whether a value can be written as it is, without quotes."""
    return value[:1] == "{" and raw_end(value, 0) == len(value)


def show_value(value: str) -> str:
    """A value as text: as it is when it is a `{...}`, else quoted."""
    return value if is_raw(value) else f'"{escape(value)}"'


def read_value(cursor: Cursor, what: str) -> str:
    """Read a quoted string or a raw `{...}`, of which comments are a part."""
    start = cursor.skip()
    if not cursor.at("{"):
        return cursor.string(f"{what}, a quoted string or {{...}}")
    end = raw_end(cursor.original, start)
    if end is None:
        cursor.fail(f"the braces of {what} are never closed", start)
    cursor.position = end
    return cursor.original[start:end]


@dataclass(frozen=True, slots=True)
class FrontendAttributes(Mapping[str, str]):
    """A map of strings that never changes, sorted by key: `{a="b",k="v"}`."""

    pairs: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, mapping: Mapping[str, str] | None = None, **more: str) -> FrontendAttributes:
        """From a mapping and keywords."""
        return cls(tuple(sorted({**(mapping or {}), **more}.items())))

    def __getitem__(self, key: str) -> str:
        for name, value in self.pairs:
            if name == key:
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __hash__(self) -> int:
        return hash(self.pairs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrontendAttributes):
            return self.pairs == other.pairs
        return isinstance(other, Mapping) and dict(self.pairs) == dict(other)

    def with_(self, **more: str) -> FrontendAttributes:
        """The same with these added or changed."""
        return FrontendAttributes.of(self, **more)

    def updated(self, more: Mapping[str, str]) -> FrontendAttributes:
        """The same with the entries of a mapping added or changed."""
        return FrontendAttributes.of({**self, **more})

    def without(self, *keys: str) -> FrontendAttributes:
        """The same without these keys."""
        return FrontendAttributes(tuple(p for p in self.pairs if p[0] not in keys))

    @property
    def text(self) -> str:
        return "{" + ",".join(f"{name}={show_value(value)}" for name, value in self.pairs) + "}"


NO_ATTRIBUTES = FrontendAttributes()


def parse_frontend_attributes(cursor: Cursor) -> FrontendAttributes:
    """Read `{k="v",a={...}}`; of a key that is given twice the last counts."""
    cursor.expect("{", "to start frontend attributes")
    values: dict[str, str] = {}
    while not cursor.eat("}"):
        if values:
            cursor.expect(",", "between frontend attributes")
        match = cursor.match(_KEY)
        if not match:
            cursor.fail(f"expected the key of a frontend attribute, found {cursor.next_text()}")
        string = _STRING.match(cursor.text, cursor.position)
        if string:
            values[match[1]] = unescape(string[1])
            cursor.position = string.end()
        else:
            values[match[1]] = read_value(cursor, f"the value of {match[1]}")
    return FrontendAttributes(tuple(sorted(values.items()))) if values else NO_ATTRIBUTES


@dataclass(frozen=True, slots=True)
class InstructionStatistics:
    """Numbers to show beside an instruction, and which of them: `{visualizing_index=0,a=1}`."""

    stat_index_to_visualize: int
    statistics: tuple[tuple[str, float], ...]

    @property
    def text(self) -> str:
        parts = [f"{name}={show_number(value)}" for name, value in self.statistics]
        return "{" + ",".join([f"visualizing_index={self.stat_index_to_visualize}", *parts]) + "}"


def parse_statistics(cursor: Cursor) -> InstructionStatistics:
    """Read `{visualizing_index=1,a=1,b=2.5}`."""
    cursor.expect("{", "to start statistics")
    if cursor.eat("}"):
        return InstructionStatistics(0, ())
    at = cursor.skip()
    if cursor.name("visualizing_index=") != "visualizing_index":
        cursor.fail("statistics start with visualizing_index=", at)
    cursor.expect("=")
    index = cursor.integer("the index of a statistic")
    values: list[tuple[str, float]] = []
    while not cursor.eat("}"):
        cursor.expect(",", "between statistics")
        match = cursor.match(_KEY)
        if not match:
            cursor.fail(f"expected the name of a statistic, found {cursor.next_text()}")
        values.append((match[1], cursor.number()))
    return InstructionStatistics(index, tuple(values))
