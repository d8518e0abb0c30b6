"""Where in its text an instruction stands, for what is found out about it after it was read.

Instructions do not know their lines, which few programs are ever asked for: the text is searched
when there is something to say. So a text is kept as long as the module that was read from it,
unless it is so long that its constants, not its instructions, are most of it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from weakref import WeakKeyDictionary

from hloom.base.diagnostics import HloError, SourceLocation
from hloom.ir.module import Module
from hloom.ir.text.cursor import blank_comments

MOST_KEPT = 1 << 24
"""Characters."""

NAMED = re.compile(
    r"^[ \t]*(?:ENTRY\s+)?(%?[A-Za-z_][\w.\-]*):?\s*(?:\(.*->.*)?\{"  # a computation
    r"|(?<![\w.\-%=,(])(%?[A-Za-z_][\w.\-]*):?\s*=\s",  # an instruction
    re.A | re.M,
)
Span = tuple[int, int]


class _Text:
    """What a module was read from; where names stand in it is found out once."""

    def __init__(self, text: str, file: str | None) -> None:
        self.text, self.file = text, file

    @cached_property
    def spans(self) -> dict[tuple[str, str], Span]:
        """Of computations, under `(name, "")`, and instructions, under `(computation, name)`; those
        with no computation around them are in `_`."""
        spans: dict[tuple[str, str], Span] = {}
        computation = "_"
        for match in NAMED.finditer(blank_comments(self.text)):
            if match[1]:
                computation = match[1].lstrip("%")
                spans.setdefault((computation, ""), match.span(1))
            else:
                spans.setdefault((computation, match[2].lstrip("%")), match.span(2))
        return spans

    @cached_property
    def alone(self) -> dict[str, Span | None]:
        """Of instructions by name only; None where several computations have one of it."""
        alone: dict[str, Span | None] = {}
        for (_, name), span in self.spans.items():
            alone[name] = None if name in alone else span
        return alone

    @cached_property
    def line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def place(self, instruction: str) -> SourceLocation | None:
        """Of `%name`, `computation/%name` or `computation`; None where the text has none, or has
        several of a name that stands alone."""
        computation, marked, name = instruction.rpartition("%")
        if not marked:
            span = self.spans.get((name, ""))
        elif computation:
            span = self.spans.get((computation.rstrip("/"), name))
        else:
            span = self.alone.get(name)
        return None if span is None else self._location(*span)

    def _location(self, start: int, end: int) -> SourceLocation:
        line = bisect_right(self.line_starts, start)
        first = self.line_starts[line - 1]
        last = self.text.find("\n", start)
        source = self.text[first : len(self.text) if last < 0 else last].rstrip("\r")
        return SourceLocation(self.file, line, start - first + 1, source, end - start)


_TEXTS: WeakKeyDictionary[Module, _Text] = WeakKeyDictionary()


def keep_text(module: Module, text: str, file: str | None) -> None:
    """Know from then on what text (of a file) a module was read from."""
    if len(text) <= MOST_KEPT:
        _TEXTS[module] = _Text(text, file)


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
        error.location = _TEXTS[module].place(error.instruction)
    return error
