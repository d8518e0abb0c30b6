"""Errors of the text readers, which know an offset; whoever holds the text adds the place.

A reader of a shape or a literal works inside a larger text. It reports how far it got; the
line, column and file are only worked out once, when the error reaches the owner of the text.
"""

import re
from typing import ClassVar, Final

from hloom.base.diagnostics import ParseError, SourceLocation

BLANKS: Final = re.compile(r"(?:[ \t\r\n]+|/\*.*?\*/|//[^\n]*)*", re.DOTALL)
"""What may stand between two tokens: spaces, line ends and comments."""


class OffsetError(ParseError):
    """A syntax error at character `position` of the text that was being read."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position

    def at(self, text: str, file: str | None = None):
        """The same error (also changed in place) with the line and column of its position."""
        position = min(self.position, len(text))
        start = text.rfind("\n", 0, position) + 1
        end = text.find("\n", position)
        self.location = SourceLocation(
            file=file,
            line=text.count("\n", 0, position) + 1,
            column=position - start + 1,
            source=text[start : end if end >= 0 else len(text)],
        )
        return self


class ShapeSyntaxError(OffsetError):
    """Text that is not a shape or a layout."""


class LiteralSyntaxError(OffsetError):
    """Text that is not a literal of its shape."""


class TokenReader:
    """A position in a text that moves past tokens, blanks and comments."""

    syntax_error: ClassVar[type[OffsetError]] = OffsetError

    def __init__(self, text: str, position: int) -> None:
        self.text, self.position = text, position

    def skipped(self) -> int:
        """Move past blanks and comments; the position after them."""
        match = BLANKS.match(self.text, self.position)
        if match:
            self.position = match.end()
        return self.position

    def take(self, token: str) -> bool:
        """Move past `token` if it comes next."""
        if self.text.startswith(token, self.skipped()):
            self.position += len(token)
            return True
        return False

    def expect(self, token: str) -> None:
        """Move past `token`, which must come next."""
        if not self.take(token):
            seen = self.text[self.position : self.position + 1]
            found_text = repr(seen) if seen else "the end of the text"
            raise self.syntax_error(f"expected {token!r}, found {found_text}", self.position)
