"""Lists of shapes, such as `operand_layout_constraints={f32[2]{0}, s32[]}`, and the entry layout."""

from dataclasses import dataclass
from typing import Any

from hloom.ir.text.cursor import Cursor
from hloom.types.shape import Shape
from hloom.types.text import parse_shape


def read_shape(cursor: Cursor) -> Shape:
    """One shape at the cursor, in all forms of `hloom.types.text`."""
    shape, cursor.position = parse_shape(cursor.text, cursor.skip())
    return shape


def parse_shapes(cursor: Cursor) -> tuple[Shape, ...]:
    """Read `{shape, shape}`."""
    return _shapes(cursor, "{", "}")


def show_shapes(shapes: tuple[Any, ...]) -> str:
    """The text of a list of shapes, layouts included."""
    return "{" + ", ".join(map(str, shapes)) + "}"


def _shapes(cursor: Cursor, opening: str, closing: str) -> tuple[Shape, ...]:
    cursor.expect(opening)
    shapes: list[Shape] = []
    while not cursor.eat(closing):
        if shapes:
            cursor.expect(",", "between shapes")
        shapes.append(read_shape(cursor))
    return tuple(shapes)


@dataclass(frozen=True, slots=True)
class EntryLayout:
    """The shapes of the entry's parameters and result, layouts included.

    Text `{(f32[2]{0}, s32[])->f32[2]{0}}`.
    """

    parameters: tuple[Shape, ...]
    result: Shape

    @property
    def text(self) -> str:
        parameters = ", ".join(map(str, self.parameters))
        return "{(" + parameters + ")->" + str(self.result) + "}"


def parse_entry_layout(cursor: Cursor) -> EntryLayout:
    """Read the value of `entry_computation_layout`."""
    cursor.expect("{", "to start the entry layout")
    parameters = _shapes(cursor, "(", ")")
    cursor.expect("->", "between parameters and result")
    result = read_shape(cursor)
    cursor.expect("}", "to end the entry layout")
    return EntryLayout(parameters, result)
