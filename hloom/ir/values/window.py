"""Windows: how convolution, reduce-window and select-and-scatter walk over a shape.

A window's text is a list of words, each with one number (or pair) per dimension joined by `x`;
a word whose numbers are all the usual ones is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from hloom.ir.text.cursor import Cursor

_WORD = re.compile(r"([A-Za-z_]\w*)=")
_NUMBERS = re.compile(r"\d+(?:x\d+)*")
_PADDING = re.compile(r"-?\d+_-?\d+(?:x-?\d+_-?\d+)*")

_NUMBER_WORDS = ("size", "stride", "lhs_dilate", "rhs_dilate", "rhs_reversal")


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """One dimension of a window; the names are those of the proto."""

    size: int
    stride: int = 1
    padding_low: int = 0
    """Elements added before the base (negative: taken away)."""
    padding_high: int = 0
    window_dilation: int = 1
    """Distance between neighbouring window elements (1: none left out)."""
    base_dilation: int = 1
    """Distance the base's neighbouring elements are moved apart (1: none put between)."""
    window_reversal: bool = False

    @property
    def is_trivial(self) -> bool:
        """Whether it covers exactly one element at each position and moves by one."""
        return self == WindowDimension(1)

    def runs_over(self, size: int) -> bool:
        """Whether in a dimension of this size each window has all that is before an element and
        that element, or all from it on (a running sum)."""
        is_plain = self.stride == self.window_dilation == self.base_dilation == 1
        pads = {self.padding_low, self.padding_high}
        return is_plain and self.size == size and pads == {0, size - 1}

    def dilated_size(self) -> int:
        """How many base elements the window spans."""
        return (self.size - 1) * self.window_dilation + 1 if self.size else 0

    def padded_size(self, base: int) -> int:
        """How many places `base` elements take, dilated and padded (below 0: more is cut off)."""
        dilated = (base - 1) * self.base_dilation + 1 if base else 0
        return dilated + self.padding_low + self.padding_high

    def output_size(self, base: int) -> int:
        """How many positions the window has over a base of `base` elements (never negative)."""
        room = self.padded_size(base) - self.dilated_size()
        if room < 0 or self.stride <= 0:
            return 0
        return room // self.stride + 1

    def clipped(self, base: int) -> WindowDimension | None:
        """The same positions over `base` elements, with those elements of the window that meet
        one of them at some position; None of a window that meets none, in padding alone."""
        moved = (self.output_size(base) - 1) * self.stride
        end = (base - 1) * self.base_dilation
        first = max(-((self.padding_low - moved) // -self.window_dilation), 0)
        last = min((self.padding_low + end) // self.window_dilation, self.size - 1)
        if last < first:
            return None
        if (first, last) == (0, self.size - 1):
            return self
        low = self.padding_low - first * self.window_dilation
        high = moved + (last - first) * self.window_dilation - low - end
        return replace(self, size=last - first + 1, padding_low=low, padding_high=high)


@dataclass(frozen=True, slots=True)
class Window:
    """A window over all dimensions; text `{size=3x3 pad=1_1x1_1}`."""

    dimensions: tuple[WindowDimension, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.dimensions)

    @property
    def words(self) -> str:
        """The text without its braces."""
        d = self.dimensions
        if not d:
            return ""
        words = ["size=" + "x".join(str(x.size) for x in d)]
        if any(x.stride != 1 for x in d):
            words.append("stride=" + "x".join(str(x.stride) for x in d))
        if any(x.padding_low or x.padding_high for x in d):
            words.append("pad=" + "x".join(f"{x.padding_low}_{x.padding_high}" for x in d))
        if any(x.base_dilation != 1 for x in d):
            words.append("lhs_dilate=" + "x".join(str(x.base_dilation) for x in d))
        if any(x.window_dilation != 1 for x in d):
            words.append("rhs_dilate=" + "x".join(str(x.window_dilation) for x in d))
        if any(x.window_reversal for x in d):
            words.append("rhs_reversal=" + "x".join(str(int(x.window_reversal)) for x in d))
        return " ".join(words)

    @property
    def text(self) -> str:
        return "{" + self.words + "}"

    @classmethod
    def of(
        cls,
        size: tuple[int, ...],
        stride: tuple[int, ...] | None = None,
        padding: tuple[tuple[int, int], ...] | None = None,
    ) -> Window:
        """The common sort of window, one number (or pair) per dimension."""
        stride = stride or (1,) * len(size)
        padding = padding or ((0, 0),) * len(size)
        return cls(
            tuple(
                WindowDimension(n, s, low, high)
                for n, s, (low, high) in zip(size, stride, padding, strict=True)
            )
        )


def parse_window(cursor: Cursor) -> Window:
    """Read `{size=.. stride=.. pad=.. lhs_dilate=.. rhs_dilate=.. rhs_reversal=..}`."""
    cursor.expect("{", "to start a window")
    start = cursor.position
    words: dict[str, list[int]] = {}
    pads: list[tuple[int, int]] | None = None
    while not cursor.eat("}"):
        at = cursor.skip()
        match = cursor.match(_WORD)
        if not match:
            cursor.fail(f"expected a word of a window such as size=, found {cursor.next_text()}")
        word = match[1]
        if word in words or (word == "pad" and pads is not None):
            cursor.fail(f"{word}= is given twice in this window", at, length=len(word))
        if word == "pad":
            pads = _parse_pads(cursor)
        elif word in _NUMBER_WORDS:
            words[word] = _parse_numbers(cursor, word)
        else:
            known = ", ".join([*_NUMBER_WORDS, "pad"])
            cursor.fail(
                f"unknown word {word!r} in a window",
                at,
                length=len(word),
                hint=f"known words: {known}",
            )
    size = words.pop("size", [])
    lengths = {word: len(values) for word, values in words.items()}
    if pads is not None:
        lengths["pad"] = len(pads)
    for word, length in lengths.items():
        if length != len(size):
            cursor.fail(f"window has {len(size)} sizes but {length} in {word}=", start)
    ones, zeros = [1] * len(size), [0] * len(size)
    # One row per dimension, in the order of the fields.
    columns = zip(
        size,
        words.get("stride", ones),
        [low for low, _ in pads] if pads else zeros,
        [high for _, high in pads] if pads else zeros,
        words.get("rhs_dilate", ones),
        words.get("lhs_dilate", ones),
        words.get("rhs_reversal", zeros),
    )
    return Window(tuple(WindowDimension(*row[:6], window_reversal=row[6] == 1) for row in columns))


def _parse_numbers(cursor: Cursor, word: str) -> list[int]:
    match = cursor.match(_NUMBERS)
    if not match:
        cursor.fail(f"expected numbers such as 3x3 after {word}=, found {cursor.next_text()}")
    return [_fits(cursor, n) for n in match[0].split("x")]


def _parse_pads(cursor: Cursor) -> list[tuple[int, int]]:
    match = cursor.match(_PADDING)
    if not match:
        cursor.fail(
            f"expected low_high pairs such as 0_0x3_3 after pad=, found {cursor.next_text()}"
        )
    if cursor.text[cursor.position : cursor.position + 1] == "_":
        cursor.fail("a window's padding has two numbers per dimension: low_high")
    pairs = [pair.split("_") for pair in match[0].split("x")]
    return [(_fits(cursor, low), _fits(cursor, high)) for low, high in pairs]


def _fits(cursor: Cursor, digits: str) -> int:
    if len(digits) > 20 or not -(2**63) <= (value := int(digits)) < 2**63:
        cursor.fail(f"integer {digits[:24]} does not fit 64 bits")
    return value
