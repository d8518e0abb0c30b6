"""Reads the modules of `cases/verify_*.hlo`, which the verifier accepts or refuses.

A case begins with `=== name`; a refused one says `=== name | rule | part of the message`. The
computations of `verify_prelude.hlo` that a case names are put before it.
"""

import re
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "cases"


class Case(NamedTuple):
    name: str
    rule: str
    message: str
    text: str


def prelude() -> dict[str, str]:
    """The shared computations under their names."""
    blocks = (FOLDER / "verify_prelude.hlo").read_text().strip().split("\n\n")
    return {block.split()[0]: block for block in blocks}


def expanded(body: str) -> str:
    """A module text: the shared computations that `body` names, then `body`."""
    used = [block for name, block in prelude().items() if re.search(rf"\b{name}\b", body)]
    return "HloModule m\n\n" + "\n\n".join([*used, body]) + "\n"


def cases(kind: str) -> list[Case]:
    """The cases of `verify_valid.hlo` or `verify_invalid.hlo`."""
    parts = re.split(r"^=== ", (FOLDER / f"verify_{kind}.hlo").read_text(), flags=re.M)[1:]
    made = []
    for part in parts:
        head, _, body = part.partition("\n")
        name, rule, message = ([x.strip() for x in head.split(" | ")] + ["", ""])[:3]
        made.append(Case(name, rule, message, expanded(body.strip())))
    return made
