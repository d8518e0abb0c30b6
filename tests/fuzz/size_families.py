"""Programs of one length: every kernel family, with the length at each place that it can have.

They stand in size_families.txt, with `{n}` for the length.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

PATH = Path(__file__).with_suffix(".txt")
_EXPRESSION = re.compile(r"\{([n\d+\-*/() ]*n[n\d+\-*/() ]*)\}")
_FUNCTION = re.compile(r"^(?=\w+ \{)", re.MULTILINE)


class Family(NamedTuple):
    """Programs of one kind by a length."""

    body: str
    multiples: tuple[int, ...]
    """Of blocks, steps and thread shares: around these lengths are tried, too."""
    most: int
    """No longer, where a program takes much more than its length."""

    def text(self, n: int) -> str:
        """The program of a length."""
        called = "".join(text for name, text in functions().items() if f"={name}" in self.body)
        whole = f"HloModule sized\n{called}ENTRY main {{\n{self.body}}}\n"
        return _EXPRESSION.sub(lambda found: str(eval(found[1], {"n": n})), whole)


@cache
def families() -> dict[str, Family]:
    """All families by name, and the functions that they call."""
    found = {}
    for part in PATH.read_text().split("\n== ")[1:]:
        head, _, body = part.partition("\n")
        name, *words = head.split("; ")
        said = dict(word.split(" ", 1) for word in words)
        multiples = tuple(map(int, said.get("around", "").split()))
        found[name] = Family(body.strip("\n") + "\n", multiples, int(said.get("most", 1 << 30)))
    return found


@cache
def functions() -> dict[str, str]:
    """The functions that families call, by name."""
    texts = _FUNCTION.split(families()["functions"].body)[1:]
    return {text.partition(" ")[0]: text for text in texts}


def names() -> list[str]:
    """The names of all families."""
    return [name for name in families() if name != "functions"]
