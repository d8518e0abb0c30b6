"""The case files of this folder: programs, valid and not, and what is said of them."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Malformed:
    """A text, where it is wrong (line and column from 1) and a part of the message."""

    text: str
    line: int
    column: int
    message: str


def _split_note(note: str) -> tuple[int, int, str]:
    place, _, message = note.partition(" ")
    line, _, column = place.partition(":")
    return int(line), int(column), message


@cache
def malformed_modules() -> list[Malformed]:
    pieces = (HERE / "malformed_modules.txt").read_text().split("=== ")[1:]
    found = []
    for piece in pieces:
        note, _, text = piece.partition("\n")
        line, column, message = _split_note(note)
        found.append(Malformed(text, line, column, message))
    return found


def _around(name: str) -> tuple[str, str]:
    """The module up to its last lines, and what follows `===`."""
    before, _, after = (HERE / name).read_text().partition("\n===\n")
    return before.partition("\n\n")[2] + "\n", after


@cache
def malformed_lines() -> list[Malformed]:
    module, cases = _around("malformed_lines.txt")
    first = module.count("\n") + 1
    found = []
    for case in cases.strip().split("\n\n"):
        note, _, body = case.partition("\n")
        line, column, message = _split_note(note)
        found.append(Malformed(f"{module} {body}\n}}", first + line, column, message))
    return found


@cache
def valid_lines() -> list[str]:
    module, lines = _around("lines.txt")
    return [
        module + " " + line.replace(" ; ", "\n ") + "\n}\n" for line in lines.split("\n") if line
    ]


def last_line(text: str) -> str:
    """What tells two texts of `valid_lines` apart: for test names."""
    return text.rstrip("}\n").rpartition("tuple(i, p)\n ")[2].replace("\n", " ; ")
