"""Memory spaces: the numbers that layouts carry as `S(n)`, and maps of numbers to colours.

A colour is the memory space that a GPU program asks for by purpose. A colour map is written
`{0:1,2:2}`: what is numbered 0 (a parameter, an output, an allocation) gets colour 1, and so on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum

from hloom.base.diagnostics import ParseError, SourceLocation, UsageError

DEFAULT_MEMORY_SPACE = 0
HOST_MEMORY_SPACE = 5


class Colour(IntEnum):
    """What a GPU buffer is for, which decides where it lives."""

    DEFAULT = 0
    COLLECTIVE = 1
    TEMPORARY = 2


_ENTRY = re.compile(r"\s*(\d{1,18})\s*:\s*(-?\d{1,18})\s*")


def parse_colour_map(text: str) -> dict[int, Colour]:
    """Read `{0:1,2:2}`; `ParseError` with a column for anything else.

    A number that is given twice, and a colour that does not exist, are errors.
    """

    def fail(message: str, at: int) -> ParseError:
        place = SourceLocation(None, 1, at + 1, text.split("\n")[0])
        return ParseError(message, location=place, rule="memory-space", hint="write {0:1,2:2}")

    if not text.lstrip().startswith("{"):
        raise fail("expected '{' to start a colour map", 0)
    position = text.index("{") + 1
    colours: dict[int, Colour] = {}
    while True:
        if not colours and text[position:].strip() == "}":
            return colours
        entry = _ENTRY.match(text, position)
        if entry is None:
            raise fail("expected a number, a colon and a colour", position)
        number, colour = int(entry[1]), int(entry[2])
        if number in colours:
            raise fail(f"{number} has two colours", entry.start(1))
        if colour not in Colour.__members__.values():
            known = ", ".join(f"{c.value} ({c.name.lower()})" for c in Colour)
            raise fail(f"there is no colour {colour}; known: {known}", entry.start(2))
        colours[number] = Colour(colour)
        position = entry.end()
        if text.startswith(",", position):
            position += 1
        elif text[position:].strip() == "}":
            return colours
        else:
            raise fail("expected ',' or '}' after a colour", position)


def show_colour_map(colours: Mapping[int, int]) -> str:
    """The text of a colour map, sorted by number; `UsageError` for a colour that is none."""
    for colour in colours.values():
        if colour not in Colour.__members__.values():
            raise UsageError(f"there is no colour {colour}", rule="memory-space")
    return "{" + ",".join(f"{k}:{int(v)}" for k, v in sorted(colours.items())) + "}"
