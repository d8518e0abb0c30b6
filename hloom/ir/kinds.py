"""Attribute kinds: how the value of one sort of attribute is read from text and written.

An operation's fields are annotated with these (`dimensions: Dims`). A kind is the only thing
parser and printer know of an attribute, so a new one costs one line here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hloom.base.quoting import escape
from hloom.ir.text.cursor import Cursor
from hloom.ir.values.aliasing import parse_output_operand_aliasing
from hloom.ir.values.conv_dims import parse_conv_dims
from hloom.ir.values.domain import parse_domain
from hloom.ir.values.groups import parse_pairs, parse_replica_groups
from hloom.ir.values.layouts import parse_shapes, show_shapes
from hloom.ir.values.padding import parse_padding
from hloom.ir.values.precision import (
    ALGORITHMS,
    parse_algorithm,
    parse_precisions,
    parse_result_accuracy,
)
from hloom.ir.values.slices import parse_slices
from hloom.ir.values.window import parse_window
from hloom.types.text import parse_shape


@dataclass(frozen=True, eq=False)
class AttributeKind:
    """Reads and writes one sort of attribute value."""

    name: str
    parse: Callable[[Cursor], Any]
    show: Callable[[Any], str]
    hint: str
    """How it looks, for error messages and the documentation page."""
    python: str = "Any"
    """Its Python type, for the stub."""


def show_braced(values: tuple[int, ...]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def show_boolean(value: bool) -> str:
    return "true" if value else "false"


def enumeration(name: str, *words: str) -> AttributeKind:
    """One of several words."""
    known = frozenset(words)

    def parse(cursor: Cursor) -> str:
        start = cursor.skip()
        word = cursor.name(f"one of {', '.join(words)}")
        if word not in known:
            cursor.fail(
                f"unknown {name} {word!r}; known: {', '.join(words)}", start, length=len(word)
            )
        return word

    return AttributeKind(name, parse, str, "|".join(words), "str")


def _parse_booleans(cursor: Cursor) -> tuple[bool, ...]:
    cursor.expect("{")
    values: list[bool] = []
    while not cursor.eat("}"):
        if values:
            cursor.expect(",")
        values.append(cursor.boolean())
    return tuple(values)


def _parse_integer_lists(cursor: Cursor) -> tuple[tuple[int, ...], ...]:
    cursor.expect("{")
    values: list[tuple[int, ...]] = []
    while not cursor.eat("}"):
        if values:
            cursor.expect(",")
        values.append(cursor.integers())
    return tuple(values)


def _parse_shape(cursor: Cursor) -> Any:
    shape, cursor.position = parse_shape(cursor.text, cursor.skip())
    return shape


def _parse_algorithm(cursor: Cursor) -> str | None:
    """The name of an algorithm, None for the one that is no choice (`unset`, as XLA prints it,
    or `dot_unset`)."""
    if cursor.at("dot_unset"):
        cursor.expect("dot_unset")
        return None
    word = parse_algorithm(cursor)
    return None if word == "unset" else word


def _literal_not_here(cursor: Cursor) -> Any:
    return cursor.fail("a literal is read by the parser of `constant`")


def _text(value: Any) -> str:
    return value.text


def _show_float(value: float) -> str:
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


Int = AttributeKind("integer", lambda c: c.integer(), str, "0", "int")
Float = AttributeKind("float", lambda c: c.number(), _show_float, "0.001", "float")
Bool = AttributeKind("boolean", lambda c: c.boolean(), show_boolean, "true|false", "bool")
String = AttributeKind("string", lambda c: c.string(), lambda s: f'"{escape(s)}"', '"text"', "str")
Raw = AttributeKind("raw text", lambda c: c.balanced(), str, "{...}", "str")
Dims = AttributeKind("dimensions", lambda c: c.integers(), show_braced, "{0,1}", "tuple[int, ...]")
Bools = AttributeKind(
    "booleans",
    _parse_booleans,
    lambda v: "{" + ",".join(map(show_boolean, v)) + "}",
    "{true,false}",
    "tuple[bool, ...]",
)
IntLists = AttributeKind(
    "integer lists",
    _parse_integer_lists,
    lambda v: "{" + ",".join(map(show_braced, v)) + "}",
    "{{0,1},{2,3}}",
    "tuple[tuple[int, ...], ...]",
)
SlicesKind = AttributeKind("slice", parse_slices, _text, "{[0:4], [1:9:2]}", "Slices")
PaddingKind = AttributeKind("padding", parse_padding, _text, "0_0x1_2_3", "Padding")
WindowKind = AttributeKind(
    "window", parse_window, _text, "{size=3x3 stride=2x2 pad=1_1x1_1}", "Window"
)
DimLabels = AttributeKind(
    "dim_labels", parse_conv_dims, _text, "b01f_01io->b01f", "ConvolutionDimensions"
)
Groups = AttributeKind(
    "replica_groups", parse_replica_groups, _text, "{{0,1},{2,3}}", "ReplicaGroups"
)
Pairs = AttributeKind(
    "source_target_pairs",
    parse_pairs,
    lambda v: "{" + ",".join(map(show_braced, v)) + "}",
    "{{0,1},{1,0}}",
    "tuple[tuple[int, int], ...]",
)
Precisions = AttributeKind(
    "operand_precision",
    parse_precisions,
    lambda v: "{" + ",".join(v) + "}",
    "{highest,default}",
    "tuple[str, ...]",
)
Accuracy = AttributeKind(
    "result_accuracy", parse_result_accuracy, _text, "{mode=highest}", "ResultAccuracy"
)
Aliasing = AttributeKind(
    "output_to_operand_aliasing",
    parse_output_operand_aliasing,
    _text,
    "{{}: (0, {})}",
    "OutputOperandAliasing",
)
DomainKind = AttributeKind(
    "domain", parse_domain, _text, '{kind="sharding", entry={...}, exit={...}}', "Domain"
)
Shapes = AttributeKind(
    "shapes", parse_shapes, show_shapes, "{f32[2]{0}, s32[]}", "tuple[Shape, ...]"
)
ShapeKind = AttributeKind("shape", _parse_shape, str, "f32[2]{0}", "Shape")
LiteralKind = AttributeKind("literal", _literal_not_here, str, "{1, 2}", "Literal")
AlgorithmKind = AttributeKind("algorithm", _parse_algorithm, str, "|".join(ALGORITHMS), "str")
