"""Reads shapes, layouts and program shapes from text.

`parse_shape` runs over the text of a whole module, where the same few shapes stand tens of
thousands of times: one regular expression cuts out the text of an array shape and a dictionary
answers with the interned shape. Only text that was never seen is taken apart.
"""

from __future__ import annotations

import re
from typing import Final

from hloom.types.dtype import BY_NAME, OPAQUE, TOKEN, DType
from hloom.types.layout import COMBINED, Layout, SplitConfig, Tile, default_layout, layout
from hloom.types.shape import (
    OPAQUE_SHAPE,
    TOKEN_SHAPE,
    UNBOUNDED,
    ProgramShape,
    Shape,
    buffer_shape,
    shape,
    tuple_shape,
)
from hloom.types.syntax import BLANKS, ShapeSyntaxError, TokenReader

__all__ = [
    "ShapeSyntaxError",
    "layout_from_text",
    "parse_layout",
    "parse_program_shape",
    "parse_shape",
    "program_shape_from_text",
    "shape_from_text",
]

_MAX_DEPTH: Final = 1000
_INT64_MAX: Final = 2**63 - 1

# An array shape with the spacing the printer uses; a `{` that does not begin a layout stays.
_ARRAY: Final = re.compile(r"[a-z]\w*\[[^\]\s]*\](?:\{(?=[-\d:])[^{}\s]*\})?(?!\s*\{)")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_INTEGER: Final = re.compile(r"-?\d+(?![\w.])")
_LAYOUT_START: Final = re.compile(r"\{(?=\s*[-\d:])")
_LEVEL_TYPE: Final = re.compile(r"[DCSH](?:\+|~|\(\d+,\s*\d+\))*")

_READ: Final[tuple[dict[str, Shape], dict[str, Shape]]] = ({}, {})
"""Text of arrays already read: as written, and with default layouts filled in."""


def parse_shape(
    text: str, position: int = 0, *, default_layouts: bool = False
) -> tuple[Shape, int]:
    """The shape that starts at `position` (blanks before it are skipped) and where it ends.

    With `default_layouts`, arrays without a layout get the row-major one, as XLA's parser gives
    them. Raises `ShapeSyntaxError` with an offset into `text`.
    """
    match = _ARRAY.match(text, position)
    if match is not None:
        known = _READ[default_layouts].get(match[0])
        if known is not None:
            return known, match.end()
    return _ShapeReader(text, position, default_layouts).shape()


def parse_layout(text: str, position: int = 0, rank: int | None = None) -> tuple[Layout, int]:
    """The layout `{...}` that starts at `position` and where it ends.

    With `rank`, a layout that does not suit that many dimensions is an error.
    """
    reader = _ShapeReader(text, position, False)
    reader.expect("{")
    return reader.layout(rank), reader.position


def parse_program_shape(
    text: str, position: int = 0, *, default_layouts: bool = False
) -> tuple[ProgramShape, int]:
    """`(f32[2], s32[]) -> f32[2]`, with or without `name:` before each parameter."""
    reader = _ShapeReader(text, position, default_layouts)
    reader.expect("(")
    names: list[str] = []
    parameters: list[Shape] = []
    while not reader.take(")"):
        if parameters:
            reader.expect(",")
        named = re.compile(r"\s*%?([\w.\-]+)\s*:").match(text, reader.position)
        if named:
            names.append(named[1])
            reader.position = named.end()
        part, reader.position = parse_shape(text, reader.skipped(), default_layouts=default_layouts)
        parameters.append(part)
    if names and len(names) != len(parameters):
        raise ShapeSyntaxError("some parameters have a name and some have none", position)
    reader.expect("->")
    result, end = parse_shape(text, reader.skipped(), default_layouts=default_layouts)
    return ProgramShape(tuple(parameters), tuple(names), result), end


def shape_from_text(text: str, *, default_layouts: bool = False) -> Shape:
    """The shape that `text` shows and nothing after it; else `ShapeSyntaxError` with a place."""
    return _whole(text, *_placed(parse_shape, text, default_layouts=default_layouts))


def layout_from_text(text: str) -> Layout:
    """The layout `{1,0:...}` that `text` shows and nothing after it."""
    return _whole(text, *_placed(parse_layout, text))


def program_shape_from_text(text: str, *, default_layouts: bool = False) -> ProgramShape:
    """The program shape `(f32[2])->f32[2]` that `text` shows and nothing after it."""
    return _whole(text, *_placed(parse_program_shape, text, default_layouts=default_layouts))


def _placed(read, text: str, **options):
    try:
        return read(text, 0, **options)
    except ShapeSyntaxError as error:
        raise error.at(text) from None


def _whole(text: str, value, end: int):
    match = BLANKS.match(text, end)
    rest = match.end() if match else end
    if rest != len(text):
        raise ShapeSyntaxError(f"unexpected {text[rest : rest + 20]!r}", rest).at(text)
    return value


class _ShapeReader(TokenReader):
    """Takes a shape apart token by token: the slow and strict way, with good errors."""

    syntax_error = ShapeSyntaxError

    def __init__(self, text: str, position: int, default_layouts: bool) -> None:
        super().__init__(text, position)
        self.default_layouts = default_layouts

    # -- tokens

    def error(self, message: str, position: int | None = None) -> ShapeSyntaxError:
        where = self.position if position is None else position
        seen = self.text[where : where + 1]
        shown = f"{message}, found {seen!r}" if seen else f"{message}, found the end of the text"
        return ShapeSyntaxError(shown if message.startswith("expected") else message, where)

    def integer(self) -> int:
        match = _INTEGER.match(self.text, self.skipped())
        if match is None:
            raise self.error("expected an integer")
        digits = match[0]
        value = int(digits) if len(digits) <= 20 else _INT64_MAX + 1
        if not -_INT64_MAX - 1 <= value <= _INT64_MAX:
            raise self.error(f"{digits[:40]} does not fit 64 bits")
        self.position = match.end()
        return value

    # -- shapes

    def shape(self) -> tuple[Shape, int]:
        """The next shape and where it ends; tuples on a stack of their own."""
        known = _READ[self.default_layouts]
        open_tuples: list[list[Shape]] = []
        while True:
            self.skipped()
            if self.take("("):
                if len(open_tuples) >= _MAX_DEPTH:
                    raise self.error(f"tuples nested deeper than {_MAX_DEPTH}")
                open_tuples.append([])
                if not self.take(")"):
                    continue
                done = tuple_shape(open_tuples.pop())
            else:
                match = _ARRAY.match(self.text, self.position)
                known_shape = known.get(match[0]) if match else None
                if match is not None and known_shape is not None:
                    done, self.position = known_shape, match.end()
                else:
                    done = self.leaf()
            while open_tuples:
                open_tuples[-1].append(done)
                if self.take(","):
                    break
                if not self.take(")"):
                    raise self.error("expected ',' or ')' in a tuple shape")
                done = tuple_shape(open_tuples.pop())
            else:
                return done, self.position

    def leaf(self, in_buffer: bool = False) -> Shape:
        """An array, token, opaque or buffer shape; no buffer inside a buffer."""
        start = self.skipped()
        match = _NAME.match(self.text, start)
        if match is None:
            raise self.error("expected a shape")
        name = match[0]
        if name == "b" and not in_buffer:
            self.position = match.end()
            self.expect("(")
            inner = self.leaf(in_buffer=True)
            self.expect(")")
            if not inner.is_array:
                raise self.error(f"a buffer holds an array, not {inner.text}", start)
            return buffer_shape(inner)
        element_type = BY_NAME.get(name)
        if element_type is None or not (
            element_type.is_array_element or element_type in (TOKEN, OPAQUE)
        ):
            raise self.error(f"no element type {name!r}", start)
        self.position = match.end()
        self.expect("[")
        done = self.array(element_type)
        _READ[self.default_layouts].setdefault(self.text[start : self.position], done)
        return done

    def array(self, element_type: DType) -> Shape:
        """What follows `f32[`."""
        start = self.position
        dims, dynamic = self.dimensions()
        after = self.position
        if not element_type.is_array_element:
            if dims or _LAYOUT_START.match(self.text, self.skipped()):
                raise self.error(f"{element_type.name} has neither dimensions nor layout", start)
            self.position = after
            return TOKEN_SHAPE if element_type is TOKEN else OPAQUE_SHAPE
        fields = default_layout(len(dims)) if self.default_layouts else None
        if _LAYOUT_START.match(self.text, self.skipped()):
            self.position += 1
            fields = self.layout(len(dims))
        else:
            self.position = after
        return shape(element_type, dims, fields, dynamic)

    def dimensions(self) -> tuple[list[int], list[bool]]:
        dims: list[int] = []
        dynamic: list[bool] = []
        while not self.take("]"):
            if dims:
                self.expect(",")
            if self.take("?"):
                dims.append(UNBOUNDED)
                dynamic.append(True)
                continue
            dynamic.append(self.take("<="))
            at = self.skipped()
            dims.append(self.integer())
            if dims[-1] < 0:
                raise self.error(f"dimension {len(dims) - 1} has size {dims[-1]}", at)
        return dims, dynamic

    # -- layouts

    def layout(self, rank: int | None) -> Layout:
        """What follows `{`; `README.md` gives the order of the fields."""
        start = self.position - 1
        order: list[int] = []
        while not (self.text.startswith((":", "}"), self.skipped())):
            if order:
                self.expect(",")
            order.append(self.integer())
        if rank is not None and len(order) != rank:
            raise self.error(f"layout of {len(order)} dimensions for an array of {rank}", start)
        if sorted(order) != list(range(len(order))):
            raise self.error(f"layout {order} is not a permutation of the dimensions", start)
        if not self.take(":"):
            self.expect("}")
            return layout(order)
        self.level_types()
        tiles, padding = self.tiles(), self.number("L(", 1, lowest=1)
        index_type, pointer_type = self.type_in("#("), self.type_in("*(")
        bits = self.number("E(", 0)
        space = self.number("S(", 0, lowest=-128, highest=127)
        layout_ = layout(
            order,
            tiles=tiles,
            tail_padding_alignment=padding,
            index_primitive_type=index_type,
            pointer_primitive_type=pointer_type,
            element_size_in_bits=bits or self.number("E(", 0),  # it may stand behind S too
            memory_space=space,
            split_configs=self.split_configs(),
            dynamic_shape_metadata_prefix_bytes=self.number("M(", 0),
        )
        if not self.take("}"):
            if self.take("P("):
                raise self.error("a physical shape is only for sparse arrays, which are gone")
            raise self.error("expected '}' at the end of a layout")
        return layout_

    def opens(self, key: str) -> bool:
        """Move past `T(` if it comes next, with blanks between allowed."""
        before = self.position
        if self.take(key[:-1]) and self.take("("):
            return True
        self.position = before
        return False

    def level_types(self) -> None:
        """The `D(D,C)` of sparse arrays: read, and without meaning today."""
        if not self.opens("D("):
            return
        first = True
        while not self.take(")"):
            if not first:
                self.expect(",")
            match = _LEVEL_TYPE.match(self.text, self.skipped())
            if match is None:
                raise self.error("expected a dimension level type, D, C or S")
            self.position, first = match.end(), False

    def tiles(self) -> list[Tile]:
        listed: list[Tile] = []
        if self.opens("T("):
            listed.append(self.tile())
            while self.take("("):
                listed.append(self.tile())
        return listed

    def tile(self) -> Tile:
        """What follows `(` of one tile."""
        sizes: list[int] = []
        while not self.take(")"):
            if sizes:
                self.expect(",")
            at = self.skipped()
            sizes.append(COMBINED if self.take("*") else self.integer())
            if sizes[-1] < 0 and sizes[-1] != COMBINED:
                raise self.error(f"tile size {sizes[-1]}", at)
        return tuple(sizes)

    def number(self, key: str, default: int, *, lowest: int = 0, highest: int = _INT64_MAX) -> int:
        """The number in `E(4)`, or `default` where this field is not there."""
        if not self.opens(key):
            return default
        at = self.skipped()
        value = self.integer()
        if not lowest <= value <= highest:
            raise self.error(f"{key}{value}) is not in {lowest}..{highest}", at)
        self.expect(")")
        return value

    def type_in(self, key: str) -> DType | None:
        """The type in `#(u32)`, or None where this field is not there."""
        if not self.opens(key):
            return None
        at = self.skipped()
        match = _NAME.match(self.text, at)
        dtype_ = BY_NAME.get(match[0]) if match else None
        if match is None or dtype_ is None or not dtype_.is_integral:
            raise self.error("an integer type must stand here", at)
        self.position = match.end()
        self.expect(")")
        return dtype_

    def split_configs(self) -> list[SplitConfig]:
        configs: list[SplitConfig] = []
        if not self.opens("SC("):
            return configs
        while True:
            dimension = self.integer()
            self.expect(":")
            indices: list[int] = []
            while not self.take(")"):
                if indices:
                    self.expect(",")
                indices.append(self.integer())
            configs.append((dimension, tuple(indices)))
            if not self.take("("):
                return configs
