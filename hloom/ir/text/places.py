"""Where in its text an instruction stands, for what is found out about it after it was read.

Instructions do not know their lines, which few programs are ever asked for: the text is searched
when there is something to say. So a text is kept as long as the module that was read from it,
unless it is so long that its constants, not its instructions, are most of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from hloom.base.diagnostics import HloError, SourceLocation
from hloom.ir.module import Module
from hloom.ir.text.cursor import blank_comments

MOST_KEPT = 1 << 24
"""Characters."""

_TEXTS: WeakKeyDictionary[Module, tuple[str, str | None]] = WeakKeyDictionary()


def keep_text(module: Module, text: str, file: str | None) -> None:
    """Know from then on what text (of a file) a module was read from."""
    if len(text) <= MOST_KEPT:
        _TEXTS[module] = (text, file)


def forget_text(module: Module) -> None:
    """A module has changed: what its text says of an instruction may no longer be so."""
    _TEXTS.pop(module, None)


@contextmanager
def naming_places(module: Module | None) -> Iterator[None]:
    """Errors that leave this block say where in the text of a module they are about."""
    try:
        yield
    except HloError as error:
        if module is not None:
            located(error, module)
        raise


def located(error: HloError, module: Module) -> HloError:
    """The error, with the place of the instruction or computation that it names, where the module
    was read from a text that has it."""
    if error.location is None and error.instruction and module in _TEXTS:
        text, file = _TEXTS[module]
        error.location = _place(text, file, error.instruction)
    return error


def _place(text: str, file: str | None, instruction: str) -> SourceLocation | None:
    """Of `%name`, `computation/%name` or `computation`; None where the text has none, or several
    of a name that stands alone."""
    computation, _, name = instruction.rpartition("%")
    computation = computation.rstrip("/") if name != instruction else name
    searched = blank_comments(text)
    start = 0
    if computation:
        header = _only(_header(computation), searched, 0)
        if header is None and computation != "_":  # of instructions that have none around them
            return None
        start = header.end() if header else 0
        if name == instruction:
            return _location(text, file, header) if header else None
    definition = _definition(name)
    match = definition.search(searched, start) if computation else _only(definition, searched, 0)
    return _location(text, file, match) if match else None


def _only(pattern: re.Pattern[str], text: str, start: int) -> re.Match[str] | None:
    """What a pattern matches in one place alone."""
    first = pattern.search(text, start)
    return None if first is None or pattern.search(text, first.end()) else first


def _header(name: str) -> re.Pattern[str]:
    return re.compile(
        rf"^[ \t]*(?:ENTRY\s+)?(%?{re.escape(name)})(?![\w.\-]):?\s*(?:\(.*->.*)?\{{", re.A | re.M
    )


def _definition(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.\-%=,(])(%?{re.escape(name)})(?![\w.\-]):?\s*=\s", re.A)


def _location(text: str, file: str | None, match: re.Match[str]) -> SourceLocation:
    at = match.start(1)
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[start : len(text) if end < 0 else end].rstrip("\r")
    return SourceLocation(file, text.count("\n", 0, at) + 1, at - start + 1, line, len(match[1]))
