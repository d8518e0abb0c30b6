"""Lists of shapes (`operand_layout_constraints={f32[2]{0}, s32[]}`) and the entry layout."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from hloom.ir.text.cursor import Cursor
from hloom.types.shape import ProgramShape, Shape
from hloom.types.text import ShapeSyntaxError, parse_program_shape, parse_shape

T = TypeVar("T")


def read_shape(cursor: Cursor) -> Shape:
    """One shape at the cursor, in all forms of `hloom.types.text`."""
    return _read(cursor, parse_shape)


def _read(cursor: Cursor, read: Callable[..., tuple[T, int]]) -> T:
    """Call a reader of `hloom.types.text` and give its errors a place."""
    try:
        value, cursor.position = read(cursor.text, cursor.skip(), default_layouts=True)
    except ShapeSyntaxError as error:
        cursor.fail(error.message, error.position)
    return value


def parse_shapes(cursor: Cursor) -> tuple[Shape, ...]:
    """Read `{shape, shape}`."""
    cursor.expect("{", "to start a list of shapes")
    shapes: list[Shape] = []
    while not cursor.eat("}"):
        if shapes:
            cursor.expect(",", "between shapes")
        shapes.append(read_shape(cursor))
    return tuple(shapes)


def show_shapes(shapes: Iterable[Shape]) -> str:
    """The text of a list of shapes, layouts included."""
    return "{" + ", ".join(map(str, shapes)) + "}"


def show_entry_layout(layout: ProgramShape) -> str:
    """The text of `entry_computation_layout`: `{(f32[2]{0}, s32[])->f32[2]{0}}`."""
    return "{" + layout.text + "}"


def parse_entry_layout(cursor: Cursor) -> ProgramShape:
    """Read the value of `entry_computation_layout`; missing layouts are the usual ones."""
    cursor.expect("{", "to start the entry layout")
    layout = _read(cursor, parse_program_shape)
    cursor.expect("}", "to end the entry layout")
    return ProgramShape(layout.parameters, (), layout.result)
