"""The words of kernel text: names, numbers, types; `parse.py` makes kernels of them."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from hloom.kernel.kernel import BufferType, TileType, Type
from hloom.types.dtype import BY_NAME, DType
from hloom.types.syntax import OffsetError, TokenReader

NAME: Final = re.compile(r'%(?:[\w.$-]+|"(?:[^"\\\n]|\\.)*")')
GLOBAL: Final = re.compile(r'@(?:[\w.$-]+|"(?:[^"\\\n]|\\.)*")')
WORD: Final = re.compile(r"[A-Za-z_][\w-]*")
INTEGER: Final = re.compile(r"-?\d+(?![\w.])")
NUMBER: Final = re.compile(r"-?(?:inf|nan|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)(?![\w.])")


class KernelSyntaxError(OffsetError):
    """Text that is not a kernel."""


class KernelCursor(TokenReader):
    """A position in a text of kernels that moves forward as things are read."""

    syntax_error = KernelSyntaxError

    def __init__(self, text: str) -> None:
        super().__init__(text, 0)
        self.types: dict[tuple[str, tuple[int, ...]], Type] = {}

    # -- tokens

    def at_end(self) -> bool:
        return self.skipped() == len(self.text)

    def error(self, message: str, position: int | None = None) -> KernelSyntaxError:
        return KernelSyntaxError(message, self.position if position is None else position)

    def match(self, pattern: re.Pattern[str], what: str) -> str:
        hit = pattern.match(self.text, self.skipped())
        if hit is None:
            raise self.error(f"expected {what}")
        self.position = hit.end()
        return hit.group()

    def peek_word(self) -> str:
        """The word that comes next, without reading it; empty if none does."""
        match = WORD.match(self.text, self.skipped())
        return match.group() if match else ""

    def take_word(self, word: str) -> bool:
        if self.peek_word() == word:
            self.position += len(word)
            return True
        return False

    def integer(self) -> int:
        return int(self.match(INTEGER, "an integer"))

    def name(self, pattern: re.Pattern[str], what: str) -> str:
        text = self.match(pattern, what)
        if text[1] != '"':
            return text[1:]
        try:
            return json.loads(text[1:])
        except ValueError:
            raise self.error(f"{text} is not a quoted name") from None

    # -- types and numbers

    def dtype(self) -> DType:
        start = self.skipped()
        dtype_ = BY_NAME.get(self.match(WORD, "an element type, such as f32"))
        if dtype_ is None or not dtype_.is_array_element:
            raise self.error("this is not an element type", start)
        return dtype_

    def type(self) -> Type:
        """`f32[8,4]` or `buffer<f32>`."""
        if self.take_word("buffer"):
            self.expect("<")
            dtype = self.dtype()
            self.expect(">")
            return BufferType(dtype)
        dtype = self.dtype()
        self.expect("[")
        sizes: list[int] = []
        if not self.take("]"):
            sizes.append(self.integer())
            while self.take(","):
                sizes.append(self.integer())
            self.expect("]")
        key = (dtype.name, tuple(sizes))
        type_ = self.types.get(key)
        if type_ is None:
            type_ = self.types[key] = TileType(dtype, key[1])
        return type_

    def result_types(self) -> tuple[Type, ...]:
        """What stands behind a colon; nothing if there is none."""
        if not self.take(":"):
            return ()
        types = [self.type()]
        while self.take(","):
            types.append(self.type())
        return tuple(types)

    def number(self) -> Any:
        """A constant: true, false, an integer, a float or a pair (re, im)."""
        if self.take("("):
            real = self.number()
            self.expect(",")
            imaginary = self.number()
            self.expect(")")
            return complex(real, imaginary)
        word = self.peek_word()
        if word in ("true", "false"):
            self.position += len(word)
            return word == "true"
        text = self.match(NUMBER, "a number")
        return int(text) if text.lstrip("-").isdigit() else float(text)

    def flag(self) -> bool:
        word = self.match(WORD, "true or false")
        if word not in ("true", "false"):
            raise self.error("expected true or false", self.position - len(word))
        return word == "true"
