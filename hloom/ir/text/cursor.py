"""A position in HLO text, and the few steps by which a reader moves it.

No token objects are made: each step is one compiled regular expression matched at the
position, which is what makes 40,000 instructions a second possible in Python. Comments are
turned into spaces of the same length before reading (`blank_comments`), so positions stay true.
"""

import re
from typing import NoReturn

from hloom.base.diagnostics import ParseError, SourceLocation
from hloom.base.quoting import unescape
from hloom.types.dtype import BY_NAME

_SPACE = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r""""(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+'|/\*.*?\*/|//[^\r\n]*""", re.S)
_NAME = re.compile(r"[A-Za-z_][\w.\-]*", re.A)
_KEY = re.compile(r"([A-Za-z_][\w.\-]*)=", re.A)
_BOOLEAN = re.compile(r"(true|false)(?![\w.\-:=])", re.A)
_INTEGER = re.compile(r"-?\d+")
_NUMBER = re.compile(r"-?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf|nan)")
_STRING = re.compile(r"""(["'])((?:(?!\1)[^\\]|\\.)*)\1""", re.S)
"""In quotes of either sort, as XLA reads them; what is printed has double ones."""
_BALANCED = re.compile(r'"(?:[^"\\]|\\.)*"|[{}()\[\]]', re.S)


KEYWORDS = frozenset(
    "true false HloModule ENTRY ROOT maximal replicated manual unknown unreduced inf nan "
    "last_tile_dim_replicate shard_as shard_like "
    "FileNames FunctionNames FileLocations StackFrames".split()
)
"""Words that are no names, unless `%` stands before them."""
TYPE_WORDS = frozenset(name for name in BY_NAME if name not in ("tuple", "buffer"))
RESERVED = KEYWORDS | TYPE_WORDS


def blank_comments(text: str) -> str:
    """The text with every comment replaced by spaces (newlines kept)."""
    if "/*" not in text and "//" not in text:
        return text

    def blank(match: re.Match[str]) -> str:
        token = match[0]
        if token[0] in "\"'":
            return token
        return re.sub(r"[^\n]", " ", token)

    return _COMMENT.sub(blank, text)


class Cursor:
    """A place in a text. Reading methods skip white space first and move past what they read."""

    __slots__ = ("file", "original", "position", "text")

    def __init__(
        self, text: str, position: int = 0, file: str | None = None, original: str | None = None
    ) -> None:
        self.text, self.position, self.file = text, position, file
        self.original = text if original is None else original
        """The text before comments were blanked; only shown in errors."""

    def skip(self) -> int:
        """Move past white space; return the position."""
        match = _SPACE.match(self.text, self.position)
        assert match
        self.position = match.end()
        return self.position

    def at(self, what: str) -> bool:
        """Whether `what` comes next (nothing is read but white space)."""
        return self.text.startswith(what, self.skip())

    def eat(self, what: str) -> bool:
        """Read `what` if it comes next."""
        if self.text.startswith(what, self.skip()):
            self.position += len(what)
            return True
        return False

    def expect(self, what: str, where: str = "") -> None:
        """Read `what`, or fail saying that it was expected."""
        if not self.text.startswith(what, self.skip()):
            self.fail(f"expected {what!r}{' ' + where if where else ''}, found {self.next_text()}")
        self.position += len(what)

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Read what a compiled pattern matches here."""
        hit = pattern.match(self.text, self.skip())
        if hit:
            self.position = hit.end()
        return hit

    def name(self, what: str = "a name") -> str:
        match = self.match(_NAME)
        return match[0] if match else self.fail(f"expected {what}, found {self.next_text()}")

    def key(self, what: str = "an attribute `name=`") -> str:
        """`name=`, without a space between the two; the name."""
        match = self.match(_KEY)
        return match[1] if match else self.fail(f"expected {what}, found {self.next_text()}")

    def integer(self, what: str = "an integer") -> int:
        match = self.match(_INTEGER)
        if not match:
            self.fail(f"expected {what}, found {self.next_text()}")
        if len(match[0]) > 20 or not -(2**63) <= int(match[0]) < 2**64:
            self.position = match.start()
            self.fail(f"integer {match[0][:24]} does not fit 64 bits")
        return int(match[0])

    def number(self, what: str = "a number") -> float:
        match = self.match(_NUMBER)
        return float(match[0]) if match else self.fail(f"expected {what}, found {self.next_text()}")

    def boolean(self) -> bool:
        match = self.match(_BOOLEAN)
        return (
            match[1] == "true"
            if match
            else self.fail(f"expected true or false, found {self.next_text()}")
        )

    def string(self, what: str = "a quoted string") -> str:
        match = self.match(_STRING)
        return (
            unescape(match[2]) if match else self.fail(f"expected {what}, found {self.next_text()}")
        )

    def integers(self, opening: str = "{", closing: str = "}") -> tuple[int, ...]:
        """A list of integers in braces."""
        self.expect(opening)
        values = []
        while not self.eat(closing):
            if values:
                self.expect(",", "between integers")
            values.append(self.integer())
        return tuple(values)

    def balanced(self) -> str:
        """The raw text from the bracket here to the one that closes it, brackets included."""
        start, depth = self.skip(), 0
        for match in _BALANCED.finditer(self.text, start):
            token = match[0]
            if token in "{([":
                depth += 1
            elif token in "})]":
                depth -= 1
                if depth == 0:
                    self.position = match.end()
                    return self.text[start : self.position]
        return self.fail("this bracket is never closed")

    def next_text(self) -> str:
        """What comes next, for a message."""
        rest = self.text[self.position : self.position + 24].split("\n")[0]
        return (
            repr(rest)
            if rest
            else ("end of line" if self.position < len(self.text) else "end of text")
        )

    def place(self, position: int | None = None, length: int = 1) -> SourceLocation:
        """Line and column of a position (default: here)."""
        at = min(self.position if position is None else position, len(self.text))
        start = self.original.rfind("\n", 0, at) + 1
        end = self.original.find("\n", at)
        source = self.original[start : end if end >= 0 else len(self.original)]
        return SourceLocation(
            self.file, self.original.count("\n", 0, at) + 1, at - start + 1, source, length
        )

    def fail(
        self,
        message: str,
        position: int | None = None,
        *,
        length: int = 1,
        instruction: str | None = None,
        rule: str | None = None,
        hint: str | None = None,
    ) -> NoReturn:
        """Raise a `ParseError` at a position (default: here)."""
        place = self.place(position, length)
        raise ParseError(message, location=place, instruction=instruction, rule=rule, hint=hint)
