"""Thunks as plain lists for JSON, both ways: the name of the kind, its fields.

How a field is saved follows from its declared type, so that a new kind of thunk needs nothing here:

    str int float bool   itself
    BufferSlice          its number in a table of slices, each written once
    bytes                its number among the blobs
    tuple[X, ...]        a list
    a named tuple        a list of its fields
    Thunk                ["Copy", the name, the fields]
    X | None             null, or as X
    X | Y                ["X", as X]
"""

from __future__ import annotations

import dataclasses
import json
import re
import struct
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pkgutil import iter_modules
from typing import Any, NamedTuple

from hloom.base.registry import load_room
from hloom.program import thunks
from hloom.program.slice import Allocation, BufferSlice
from hloom.program.thunks.thunk import THUNKS, Thunk

_SIZE = struct.Struct("<q")


def thunks_section(thunks: Iterable[Thunk]) -> list[bytes]:
    """The section of saved programs: the size of a text, the text, then the blobs."""
    writer = ThunkWriter()
    header = {
        "thunks": writer.thunks(thunks),
        "slices": writer.slices,
        "blobs": [len(b) for b in writer.blobs],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    return [_SIZE.pack(len(text)), text, *writer.blobs]


def thunks_of_section(section: memoryview, allocations: Sequence[Allocation]) -> tuple[Thunk, ...]:
    """The thunks in a section, which use these allocations."""
    (size,) = _SIZE.unpack_from(section)
    at = _SIZE.size + _natural(size)
    header = json.loads(bytes(section[_SIZE.size : at]))
    blobs: list[memoryview] = []
    for length in header["blobs"]:
        blobs.append(section[at : at + _natural(length)])
        at += length
    if at != len(section):
        raise ValueError(f"{at} bytes of thunks are spoken of, {len(section)} are there")
    return Reader(allocations, header["slices"], blobs).thunks(header["thunks"])


class ThunkWriter:
    """Collects the tables while thunks are written."""

    def __init__(self) -> None:
        self.slices: list[tuple[int, int, int]] = []
        """Allocation, offset and size of each."""
        self.blobs: list[bytes] = []
        self._numbers: dict[tuple[int, int, int], int] = {}

    def slice(self, s: BufferSlice) -> int:
        """The number of a slice."""
        key = (s.allocation.index, s.offset, s.size_bytes)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.slices)
            self.slices.append(key)
        return number

    def blob(self, data: bytes) -> int:
        """The number of some bytes."""
        self.blobs.append(data)
        return len(self.blobs) - 1

    def thunks(self, thunks: Iterable[Thunk]) -> list[list[Any]]:
        """A sequence of thunks."""
        return [_write_thunk(self, t) for t in thunks]


class Reader:
    """Makes thunks of the lists again. Wrong lists raise ValueError, TypeError or IndexError."""

    def __init__(
        self,
        allocations: Sequence[Allocation],
        slices: Iterable[Sequence[int]],
        blobs: Sequence[memoryview],
    ) -> None:
        by_index = {a.index: a for a in allocations}
        self._slices = [BufferSlice(by_index[a], offset, size) for a, offset, size in slices]
        self._blobs = blobs
        for s in self._slices:
            if not 0 <= s.offset <= s.end <= s.allocation.size_bytes:
                raise ValueError(f"the slice {s} leaves its allocation")

    def slice(self, number: int) -> BufferSlice:
        """The slice of this number."""
        return self._slices[_natural(number)]

    def blob(self, number: int) -> bytes:
        """The bytes of this number."""
        return bytes(self._blobs[_natural(number)])

    def thunks(self, rows: Iterable[list[Any]]) -> tuple[Thunk, ...]:
        """A sequence of thunks."""
        return tuple([_read_thunk(self, row) for row in rows])


# -- the saved form of a field, by its declared type


class SavedForm(NamedTuple):
    """How values of one declared type are saved, and read again."""

    write: Callable[[ThunkWriter, Any], Any]
    read: Callable[[Reader, Any], Any]


def _natural(x: Any) -> int:
    if type(x) is not int or x < 0:
        raise ValueError(f"{x!r} is no number of a slice or of bytes")
    return x


def _plain(kind: type) -> SavedForm:
    def read(_: Reader, x: Any) -> Any:
        if type(x) is not kind:
            raise TypeError(f"{x!r} is not {kind.__name__}")
        return x

    return SavedForm(lambda _, x: x, read)


def _read_float(_: Reader, x: Any) -> float:
    if type(x) is not float and type(x) is not int:
        raise TypeError(f"{x!r} is not a number")
    return x


def import_kind(kind: str) -> None:
    """Import the file that a kind is in, which has its name or the beginning of it, and no others:
    a program need not wait for what it has not. Those of other names are among all files."""
    name = re.sub("(?<=[a-z])(?=[A-Z])", "_", kind).lower()
    for module in iter_modules(thunks.__path__):
        if name.startswith(module.name.rstrip("_")):
            load_room(thunks.__name__, only=(module.name,))
    if kind not in THUNKS:
        load_room(thunks.__name__)


def _write_thunk(to: ThunkWriter, t: Thunk) -> list[Any]:
    fields = _fields(type(t))
    return [t.kind, *[form.write(to, getattr(t, name)) for name, form in fields]]


def _read_thunk(of: Reader, row: Any) -> Thunk:
    kind, *values = row
    cls = THUNKS.get(kind)
    if cls is None:
        import_kind(kind)
        cls = THUNKS.get(kind)
    if cls is None:
        raise ValueError(f"no kind of thunk {kind!r}")
    fields = _fields(cls)
    return cls(*[form.read(of, x) for (_, form), x in zip(fields, values, strict=True)])


_FORMS: dict[Any, SavedForm] = {
    str: _plain(str),
    int: _plain(int),
    bool: _plain(bool),
    float: SavedForm(lambda _, x: x, _read_float),
    bytes: SavedForm(ThunkWriter.blob, Reader.blob),
    BufferSlice: SavedForm(ThunkWriter.slice, Reader.slice),
    Thunk: SavedForm(_write_thunk, _read_thunk),
}


@cache
def _fields(cls: type[Thunk]) -> list[tuple[str, SavedForm]]:
    """The fields of a kind of thunk in order, each with its saved form."""
    hints = typing.get_type_hints(cls)
    return [(f.name, saved_form(hints[f.name])) for f in dataclasses.fields(cls)]


@cache
def saved_form(declared: Any) -> SavedForm:
    """The saved form of a declared type; TypeError for one that has none."""
    if declared in _FORMS:
        return _FORMS[declared]
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin in (types.UnionType, typing.Union):
        return _choice(arguments)
    if origin is tuple and len(arguments) == 2 and arguments[1] is ...:
        return _sequence(saved_form(arguments[0]))
    if isinstance(declared, type) and issubclass(declared, tuple) and hasattr(declared, "_fields"):
        return _named(declared)
    raise TypeError(f"no saved form for fields of type {declared}")


def _sequence(inside: SavedForm) -> SavedForm:
    write, read = inside
    return SavedForm(
        lambda to, values: [write(to, x) for x in values],
        lambda of, rows: tuple([read(of, x) for x in rows]),
    )


def _named(cls: Any) -> SavedForm:
    hints = typing.get_type_hints(cls)
    forms = [saved_form(hints[name]) for name in cls._fields]
    return SavedForm(
        lambda to, value: [form.write(to, x) for form, x in zip(forms, value, strict=True)],
        lambda of, row: cls(*[form.read(of, x) for form, x in zip(forms, row, strict=True)]),
    )


def _choice(types_: tuple[Any, ...]) -> SavedForm:
    """One of several types: their names tell which; None is null."""
    names = {t: t.__name__ for t in types_ if t is not type(None)}
    forms = {name: saved_form(t) for t, name in names.items()}
    only = next(iter(forms.values())) if len(forms) == 1 else None

    def write(to: ThunkWriter, x: Any) -> Any:
        if x is None:
            return None
        if only is not None:
            return only.write(to, x)
        name = names[type(x)]
        return [name, forms[name].write(to, x)]

    def read(of: Reader, x: Any) -> Any:
        if x is None:
            if type(None) in types_:
                return None
            raise TypeError("null where a value has to be")
        if only is not None:
            return only.read(of, x)
        name, value = x
        return forms[name].read(of, value)

    return SavedForm(write, read)
