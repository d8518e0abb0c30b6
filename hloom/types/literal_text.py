"""Literals as text, both ways: `{ { 1, 2 }, { 3, 4 } }`, `( 1, {2, 3} )`, `{...}`.

Reading has two ways. Small literals, and any with something odd about them, are taken apart
token by token (`literal_reader`), which knows where it is. Large ones are checked as a whole:
the structure by counting braces with numpy, the numbers by one regular expression and one call
that reads them all. When anything does not fit, the slow way runs and says where.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from hloom.types.literal import TOKEN_LITERAL, Array, Literal
from hloom.types.literal_reader import LiteralReader, rounded
from hloom.types.number_text import shown_numbers
from hloom.types.shape import Shape
from hloom.types.syntax import BLANKS, LiteralSyntaxError

__all__ = ["LiteralSyntaxError", "literal_from_text", "parse_literal", "show_literal"]

_SMALL: Final = 8
"""Up to so many elements, token by token is not slower: 10 us each of f32, 5 of s32; all at once
60 us, whatever there are."""
_WHOLE: Final = re.compile(r"[ \t\r\n]*+(?:-?\d++[ \t\r\n]++)*+")
_FLOAT: Final = re.compile(
    r"[ \t\r\n]*+(?:-?(?:\d++(?:\.\d*+)?(?:[eE][-+]?\d++)?|inf|nan)[ \t\r\n]++)*+"
)
_PRED: Final = re.compile(r"[ \t\r\n]*+(?:(?:true|false|-?\d++)[ \t\r\n]++)*+")
_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_NO_STRUCTURE: Final = str.maketrans("{},()", "     ")


# -- writing


def show_literal(literal: Literal, limit: int | None = None) -> str:
    """The text between the parentheses of `constant(...)`.

    With `limit`, a literal with more elements in all is shown as `{...}`, as is one whose values
    were never known.
    """
    if literal.is_elided or (limit is not None and _element_count(literal) > limit):
        return "{...}"
    parts: list[str] = []
    stack: list[Literal | str] = [literal]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            parts.append(item)
        elif item.is_tuple:
            stack.append(" )")
            for position in range(len(item.elements) - 1, -1, -1):
                stack.append(item.elements[position])
                if position:
                    stack.append(", ")
            parts.append("( ")
        else:
            parts.append(_shown_leaf(item))
    return "".join(parts)


def _shown_leaf(literal: Literal) -> str:
    if not literal.shape.is_array:
        return literal.shape.text
    if literal.is_elided:
        return "{...}"
    texts = shown_numbers(np.ascontiguousarray(literal.array).reshape(-1), literal.dtype)
    sizes = literal.sizes
    if not sizes:
        if literal.dtype.is_pred:
            return "true" if literal.array else "false"
        return texts[0]
    if len(sizes) == 1:
        return "{" + ", ".join(texts) + "}"
    return _shown_nested(texts, sizes)


def _shown_nested(texts: list[str], sizes: tuple[int, ...]) -> str:
    """Rank 2 and more: rows with inner blanks, and from rank 4 on a comment for each block."""
    row = sizes[-1]
    count = int(np.prod(sizes[:-1], dtype=object))
    left, right = ("{", "}") if row <= 1 else ("{ ", " }")
    blocks = [left + ", ".join(texts[k * row : k * row + row]) + right for k in range(count)]
    for level in range(len(sizes) - 2, -1, -1):
        size = sizes[level]
        count = int(np.prod(sizes[:level], dtype=object))
        numbered = len(sizes) > 3 and level > 0
        blocks = [
            (f"{{ /*i{level - 1}={k % sizes[level - 1]}*/ " if numbered else "{ ")
            + ", ".join(blocks[k * size : k * size + size])
            + " }"
            for k in range(count)
        ]
    return blocks[0]


def _element_count(literal: Literal) -> int:
    stack, count = [literal], 0
    while stack:
        item = stack.pop()
        stack.extend(item.elements)
        if item.shape.is_array:
            count += int(np.prod(item.sizes, dtype=object))
    return count


# -- reading


def parse_literal(text: str, position: int, shape: Shape) -> tuple[Literal, int]:
    """The literal of `shape` that starts at `position` and where it ends.

    Raises `LiteralSyntaxError` with an offset into `text`.
    """
    reader = LiteralReader(text, position)
    if not shape.is_tuple:
        return _parse_leaf(reader, shape), reader.position
    open_tuples: list[tuple[Shape, list[Literal], Iterator[Shape]]] = []
    reader.expect("(")
    open_tuples.append((shape, [], iter(shape.elements)))
    while True:
        whole, parts, rest = open_tuples[-1]
        part = next(rest, None)
        if part is None:
            reader.expect(")")
            done = Literal(whole, None, tuple(parts))
            open_tuples.pop()
            if not open_tuples:
                return done, reader.position
            open_tuples[-1][1].append(done)
            continue
        if parts:
            reader.expect(",")
        if part.is_tuple:
            reader.expect("(")
            open_tuples.append((part, [], iter(part.elements)))
        else:
            parts.append(_parse_leaf(reader, part))


def literal_from_text(text: str, shape: Shape) -> Literal:
    """The literal that `text` shows and nothing after it; errors have a place."""
    try:
        literal, end = parse_literal(text, 0, shape)
        match = BLANKS.match(text, end)
        rest = match.end() if match else end
        if rest != len(text):
            raise LiteralSyntaxError(f"unexpected {text[rest : rest + 20]!r}", rest)
        return literal
    except LiteralSyntaxError as error:
        raise error.at(text) from None


def _parse_leaf(reader: LiteralReader, shape: Shape) -> Literal:
    if shape.is_token:
        reader.take_token_text()
        return TOKEN_LITERAL
    if not shape.is_array:
        raise reader.error(f"no literal has the shape {shape.text}")
    if shape.is_dynamic and shape.is_unbounded:
        raise reader.error(f"a literal of {shape.text} has no known size")
    if shape.dims and reader.take_elided():
        return Literal.elided(shape)
    if shape.size > _SMALL and reader.text.startswith("{", reader.skipped()):
        read_all = _read_at_once(reader.text, reader.position, shape)
        if read_all is not None:
            array, reader.position = read_all
            return Literal(shape, array)
    return Literal(shape, reader.array(shape))


def _read_at_once(text: str, start: int, shape: Shape) -> tuple[Array, int] | None:
    """The array and its end, or None where the slow way must look."""
    end = _closing_brace(text, start, shape.size)
    if end is None:
        return None
    body = text[start:end]
    if "/" in body:
        body = _COMMENT.sub(lambda match: " " * len(match[0]), body)
    if not _structure_fits(body, shape):
        return None
    numbers = body.translate(_NO_STRUCTURE) + " "
    count = shape.size * (2 if shape.dtype.is_complex else 1)
    array = _read_numbers(numbers, count, shape)
    return None if array is None else (array.reshape(shape.dims), end)


def _closing_brace(text: str, start: int, size: int) -> int | None:
    """Where the `{` at `start` is closed; looks at growing pieces, since texts are long."""
    window = 32 * size
    while True:
        piece = text[start : start + window].encode("latin-1", "replace")
        signs = np.frombuffer(piece, np.uint8)
        braces = np.flatnonzero((signs == 123) | (signs == 125))
        depth = np.cumsum(np.where(signs[braces] == 123, 1, -1))
        closed = np.flatnonzero(depth <= 0)
        if closed.size:
            end = int(braces[closed[0]])
            return start + end + 1 if text.startswith("{", start) else None
        if start + window >= len(text):
            return None
        window *= 4


def _structure_fits(body: str, shape: Shape) -> bool:
    """Whether the braces nest as the shape does and each innermost pair holds a row."""
    signs = np.frombuffer(body.encode("latin-1", "replace"), np.uint8)
    opening, closing = signs == 123, signs == 125
    separator = (signs <= 32) | (signs == 44) | opening | closing | (signs == 40) | (signs == 41)
    starts = ~separator
    starts[1:] &= separator[:-1]
    per_element = 2 if shape.dtype.is_complex else 1
    seen = np.cumsum(starts)
    if int(seen[-1]) != shape.size * per_element:
        return False
    if not _pairs_fit(signs, seen, shape.size if shape.dtype.is_complex else 0):
        return False
    braces = np.flatnonzero(opening | closing)
    is_open = opening[braces]
    depth = np.cumsum(np.where(is_open, 1, -1))
    tokens = seen[braces]
    if int(depth.max()) != len(shape.dims):
        return False
    for level in range(1, len(shape.dims) + 1):
        block = int(np.prod(shape.dims[level - 1 :], dtype=object)) * per_element
        begins = tokens[is_open & (depth == level)]
        ends = tokens[~is_open & (depth == level - 1)]
        blocks = np.arange(shape.size * per_element // block) * block
        if not (np.array_equal(begins, blocks) and np.array_equal(ends, blocks + block)):
            return False
    return True


def _pairs_fit(signs: Array, seen: Array, pairs: int) -> bool:
    """Whether the parentheses enclose two numbers each (or none stand in a real array)."""
    opens = seen[signs == 40]
    if not pairs:
        return opens.size == 0 and not (signs == 41).any()
    closes, steps = seen[signs == 41], np.arange(pairs) * 2
    if not (np.array_equal(opens, steps) and np.array_equal(closes, steps + 2)):
        return False
    # Between the two numbers of a pair stands exactly one comma.
    inside = np.cumsum(signs == 40) - np.cumsum(signs == 41) == 1
    commas = seen[(signs == 44) & inside]
    return np.array_equal(commas, steps + 1)


def _read_numbers(numbers: str, count: int, shape: Shape) -> Array | None:
    dtype = shape.dtype
    if dtype.is_floating or dtype.is_complex:
        return _read_floats(numbers, count, shape)
    if dtype.is_pred:
        if _PRED.fullmatch(numbers) is None:
            return None
        numbers = numbers.replace("true", "1").replace("false", "0")
    elif _WHOLE.fullmatch(numbers) is None:
        return None
    wide = np.uint64 if dtype.is_unsigned_int else np.int64
    if wide is np.uint64 and "-" in numbers:
        return None
    read = np.fromstring(numbers, wide, sep=" ")
    edges = np.iinfo(wide)
    if read.size != count:
        return None
    if (read == edges.max).any() or (edges.min and (read == edges.min).any()):
        # fromstring stops at the edges without a word, so these are read exactly.
        tokens = numbers.split()
        if max(map(len, tokens)) > 24:
            return None
        exact = list(map(int, tokens))
        if min(exact) < edges.min or max(exact) > edges.max:
            return None
        read = np.array(exact, wide)
    return rounded(read, dtype)


def _read_floats(numbers: str, count: int, shape: Shape) -> Array | None:
    if _FLOAT.fullmatch(numbers) is None:
        return None
    values: Any = np.fromstring(numbers, np.float64, sep=" ")
    if values.size != count:
        return None
    if "-nan" in numbers:
        tokens = numbers.split()
        for where in np.flatnonzero(np.isnan(values)).tolist():
            if tokens[where][0] == "-":
                values[where] = -np.nan
    if np.isinf(values).any() and numbers.count("inf") != int(np.isinf(values).sum()):
        return None
    components = rounded(values, shape.dtype.component)
    if components is None or not shape.dtype.is_complex:
        return components
    return components.view(shape.dtype.numpy)
