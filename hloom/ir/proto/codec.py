"""What a codec is, and the codecs of plain fields: numbers, lists, names, text.

A codec reads one attribute's value from an `HloInstructionProto` and writes it into one. What it
needs beside the message (shapes, shardings, the operands) comes as `Context`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hloom.base.diagnostics import ProtoError
from hloom.ir import schema
from hloom.ir.proto.shapes import ShapeReader, ShapeWriter
from hloom.ir.proto.sharding import ShardingReader


class Context:
    """What the codecs share during one conversion, and the instruction that is at hand."""

    def __init__(self) -> None:
        self.shapes = ShapeReader()
        self.shape_messages = ShapeWriter()
        self.shardings = ShardingReader()
        self.operands: tuple[Any, ...] = ()
        """The operands of the instruction being read or written."""
        self.channel_for_zero = 1
        """What channel 0 is called, which means none in messages: a number that no other has."""


@dataclass(frozen=True)
class Codec:
    """One attribute: `read(message, context)` and `write(value, message, context)`."""

    read: Callable[[Any, Context], Any]
    write: Callable[[Any, Any, Context], None]


def scalar(field: str, missing: Any = None) -> Codec:
    """A number, boolean or string field; an unset one (0) reads as `missing` if that is given."""

    def write(value: Any, message: Any, _: Context) -> None:
        if value is not None:
            setattr(message, field, value)

    if missing is None:
        return Codec(lambda m, _: getattr(m, field), write)
    return Codec(lambda m, _: getattr(m, field) or missing, write)


def text(field: str) -> Codec:
    """A field of bytes that is text for us; bytes that are not UTF-8 survive as surrogates."""
    return Codec(
        lambda m, _: getattr(m, field).decode("utf-8", "surrogateescape"),
        lambda v, m, _: setattr(m, field, v.encode("utf-8", "surrogateescape")),
    )


def repeated(field: str, parent: str = "") -> Codec:
    """A list of numbers, of the instruction or of one message in it."""
    if not parent:
        return Codec(
            lambda m, _: tuple(getattr(m, field)), lambda v, m, _: getattr(m, field).extend(v)
        )

    def write(value: Iterable[int], message: Any, _: Context) -> None:
        inside = getattr(message, parent)
        inside.SetInParent()
        getattr(inside, field).extend(value)

    return Codec(lambda m, _: tuple(getattr(getattr(m, parent), field)), write)


def inside(parent: str, field: str) -> Codec:
    """A number or boolean of one message in the instruction."""

    def write(value: Any, message: Any, _: Context) -> None:
        into = getattr(message, parent)
        into.SetInParent()
        setattr(into, field, value)

    return Codec(lambda m, _: getattr(getattr(m, parent), field), write)


def enumeration(field: str, enum: str, parent: str = "", show: Callable[[str], str] = str) -> Codec:
    """An enum, as the name of its value (in the letters that `show` makes of it)."""

    def read(message: Any, _: Context) -> str:
        holder = getattr(message, parent) if parent else message
        return show(enum_name(enum, getattr(holder, field)))

    def write(value: str, message: Any, _: Context) -> None:
        holder = getattr(message, parent) if parent else message
        setattr(holder, field, schema.enum_numbers(enum)[value.upper()])

    return Codec(read, write)


def word(field: str, known: tuple[str, ...]) -> Codec:
    """A string field that holds one of a few words."""

    def read(message: Any, _: Context) -> str:
        value = getattr(message, field)
        if value not in known:
            raise ProtoError(f"{field} is {value!r}; known: {', '.join(known)}")
        return value

    return Codec(read, lambda v, m, _: setattr(m, field, v))


def enum_name(enum: str, number: int) -> str:
    """The name of an enum's value; `ProtoError` for a value that it does not have."""
    name = schema.enum_names(enum).get(number)
    if name is None:
        raise ProtoError(f"{enum} has no value {number}")
    return name
