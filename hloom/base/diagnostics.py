"""Errors that a user sees: one message, a place, the rule that was broken, what to do.

Everything that is wrong with an *input* is an `HloError`; anything else that escapes is a
bug of hloom. A place is built only when the error is raised, so that correct programs pay
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class SourceLocation:
    """Where in an input something is wrong. Lines and columns count from 1."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    source: str | None = None
    """The offending line itself, without its newline."""
    length: int = 1
    """How many characters from `column` the caret underlines."""

    def __str__(self) -> str:
        parts = [self.file or "<text>"] + [str(n) for n in (self.line, self.column) if n]
        return ":".join(parts)

    def quoted(self, width: int = 120) -> str:
        """The line with a caret below it; long lines are cut around it."""
        if self.source is None or self.column is None:
            return ""
        start = max(0, self.column - 1 - width // 2) if len(self.source) > width else 0
        shown = self.source[start : start + width].replace("\t", " ")
        left = "..." if start else ""
        right = "..." if start + width < len(self.source) else ""
        caret = " " * (len(left) + self.column - 1 - start)
        length = max(1, min(self.length, len(shown) - (self.column - 1 - start)))
        return f"  {left}{shown}{right}\n  {caret}{'^' * length}"


def did_you_mean(name: str, known: Iterable[str], before: str = "", most: int = 12) -> str | None:
    """A hint that offers the names most like a wrong one; all of them where they are few."""
    import difflib

    names = sorted(known)
    near = difflib.get_close_matches(name, names, 3, 0.55)
    if near:
        return f"did you mean {' or '.join(before + n for n in near)}?"
    return f"known: {', '.join(before + n for n in names)}" if len(names) <= most else None


class HloError(Exception):
    """An input breaks a rule.

    `message` is one sentence; `location` says where in the text or file; `instruction` names the
    instruction (`%name` or `computation/%name`); `rule` is a short stable identifier of the rule
    broken; `hint` says what to do. `str(e)` shows all that is known.
    """

    def __init__(
        self,
        message: str,
        *,
        location: SourceLocation | None = None,
        instruction: str | None = None,
        rule: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.location, self.instruction = message, location, instruction
        self.rule, self.hint = rule, hint

    def __str__(self) -> str:
        head = f"{self.location}: " if self.location else ""
        at = f"{self.instruction}: " if self.instruction else ""
        rule = f" [{self.rule}]" if self.rule else ""
        text = f"{head}{at}{self.message}{rule}"
        if self.location and (quote := self.location.quoted()):
            text += "\n" + quote
        if self.hint:
            text += f"\n  hint: {self.hint}"
        return text

    def as_json(self) -> dict[str, object]:
        """The same as plain data, for `--json`."""
        location = self.location
        return {
            "error": type(self).__name__,
            "message": self.message,
            "file": location.file if location else None,
            "line": location.line if location else None,
            "column": location.column if location else None,
            "instruction": self.instruction,
            "rule": self.rule,
            "hint": self.hint,
        }


class ParseError(HloError):
    """Text that is not HLO; `location` is always known."""


class ProtoError(HloError):
    """Bytes or text that are not a valid HLO protobuf message."""


class VerifyError(HloError):
    """A graph that breaks a rule of the language."""


class EvalError(HloError):
    """A program that cannot be evaluated: wrong arguments, no such meaning, a guard reached."""


class UsageError(HloError):
    """A wrong use of an API or a command: unknown name, wrong option, unknown file type."""


class UnsupportedError(HloError):
    """A valid program with something in it that a target cannot run."""


class GraphError(UsageError, ValueError):
    """An edit that would break a graph, or a question to a broken one: a cycle, no root."""
