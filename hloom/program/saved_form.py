"""The saved form of compiled programs, described once: a file that is mapped into memory and run.

    head       magic, version, byte order, size of the whole, number of sections, checksum
    rows       of each section: kind, CRC-32, first byte, size
    sections   each at a multiple of 64 bytes, constants at one of 4096; zeros between

The records here are what C++ reads without Python: numbers of 64 bits, little endian, and ranges
(first byte in the section, count of what stands there: bytes of a text, numbers, or records).
`hloom/runtime/native/make_saved_form.py` writes them as C structs, with an assertion for every
size and offset; Python packs and unpacks by the same table. CRC-32 sees every change within 32
neighbouring bits, so every changed byte; it is no signature: whoever may write a saved program may
make it do anything (docs/security.md).
"""

from __future__ import annotations

import struct
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, NamedTuple

MAGIC: Final = b"hloomexe"
VERSION: Final = 5
"""Of everything here; another one is refused."""
BYTE_ORDER: Final = 0x01020304
PAGE: Final = 4096
"""Constants are at multiples of this, so that a mapped file has them at the same."""
MOST_SECTIONS: Final = 4096


class SectionKind(IntEnum):
    """What a section holds, in the order in which they stand."""

    LABELS = 1
    """What whoever saved it says about it: a record Labels."""
    PROGRAM = 2
    """What running needs: a record Program."""
    OBJECTS = 3
    """Machine code: relocatable objects."""
    THUNKS = 4
    """The steps, for those who look (saved_thunks.py)."""
    LAUNCH = 5
    """Where it runs, and how its arrays stand on devices: a record LaunchSpec."""
    OPTIONS = 6
    """Compile options, as whoever asked for them wrote them."""
    MODULE = 7
    """The HLO it was compiled from, a HloModuleProto."""
    CONSTANTS = 8
    """Each at a multiple of 64 bytes."""


class FieldKind(NamedTuple):
    """How a field is packed, in C and in Python."""

    c: str
    format: str
    size: int


NUMBER: Final = FieldKind("int64_t", "q", 8)
WORD: Final = FieldKind("uint32_t", "I", 4)
RANGE: Final = FieldKind("Range", "qq", 16)


class RecordKind:
    """A record: a name, and its fields in order, those of a range as `x_at` and `x_count`."""

    def __init__(self, name: str, what: str, fields: Mapping[str, FieldKind]) -> None:
        self.name, self.what, self.fields = name, what, fields

    @cached_property
    def format(self) -> struct.Struct:
        return struct.Struct("<" + "".join([kind.format for kind in self.fields.values()]))

    @cached_property
    def row(self) -> Any:
        """The type of what is unpacked: a named tuple, of whose fields ranges are `Range`s."""
        return namedtuple(self.name, self.fields)

    def offsets(self) -> dict[str, int]:
        """Of each field, in bytes."""
        offsets_, at = {}, 0
        for name, kind in self.fields.items():
            offsets_[name] = at
            at += kind.size
        return offsets_

    @cached_property
    def _in_order(self) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
        """The values of all fields; with a single one, itemgetter gives no tuple."""
        first, *others = self.fields
        return itemgetter(first, *others) if others else lambda values: (values[first],)

    def pack(self, values: Mapping[str, Any]) -> bytes:
        """One record; every field must be given."""
        flat: list[int] = []
        for value in self._in_order(values):
            if type(value) is Range:
                flat += value
            else:
                flat.append(value)
        return self.format.pack(*flat)

    def unpack(self, numbers: Iterable[int]) -> Any:
        """The record of its flat numbers."""
        take = iter(numbers).__next__
        return self.row(
            *[Range(take(), take()) if k is RANGE else take() for k in self.fields.values()]
        )


class Range(NamedTuple):
    """Where in its section something stands, and how many of it there are."""

    at: int
    count: int


NOWHERE: Final = Range(-1, 0)
EMPTY: Final = Range(0, 0)


def _numbers(*names: str) -> dict[str, FieldKind]:
    return dict.fromkeys(names, NUMBER)


def _ranges(*names: str) -> dict[str, FieldKind]:
    return dict.fromkeys(names, RANGE)


HEAD = RecordKind(
    "Head",
    "How a file begins. `crc` is of what stands before it here, and of the rows.",
    {
        "magic": NUMBER,
        "version": WORD,
        "byte_order": WORD,
        **_numbers("size"),
        "section_count": WORD,
        "crc": WORD,
    },
)
SECTION = RecordKind(
    "Section",
    "Where a section stands. The rows follow the head.",
    {"kind": WORD, "crc": WORD, **_numbers("at", "size")},
)
LABEL = RecordKind("Label", "A label.", _ranges("name", "text"))
LABELS = RecordKind("Labels", "All labels.", _ranges("labels"))
ALLOCATION = RecordKind(
    "Allocation",
    "A block of memory of a run. `kind` is an AllocationKind, `output_index` nowhere where the\n"
    "parameter is not returned; constants stand at `constant_at` of their section.",
    {
        **_numbers("size_bytes", "kind", "parameter_number"),
        **_ranges("shape_index", "output_index"),
        **_numbers("is_donated", "space", "constant_at", "constant_bytes"),
    },
)
PARAMETER = RecordKind(
    "Parameter",
    "A leaf of the parameters. `allocation` is -1 where nothing reads it.",
    {
        **_numbers("number"),
        **_ranges("index", "shape"),
        **_numbers("allocation", "size_bytes"),
    },
)
RESULT = RecordKind(
    "Result",
    "A leaf of the result. `allocation` is -1 for a token.",
    {**_ranges("index", "shape"), **_numbers("allocation", "offset", "size_bytes")},
)
OBJECT = RecordKind("Object", "Machine code, in its section.", _numbers("at", "size"))
CALL_BUFFER = RecordKind(
    "CallBuffer",
    "An operand or result of a custom call. `allocation` is -1 for a token.",
    {**_numbers("dtype"), **_ranges("dims"), **_numbers("allocation", "offset", "size_bytes")},
)
ATTRIBUTE = RecordKind(
    "Attribute",
    "Of a custom call: `data` has its bytes, or the records of a dictionary.",
    {**_ranges("name"), **_numbers("kind", "dtype", "count"), **_ranges("data")},
)
CALL_SITE = RecordKind(
    "CallSite",
    "A custom call: its text form, and the attributes that its handler is given.",
    {
        **_ranges("name", "target", "config"),
        **_numbers("is_typed"),
        **_ranges("operands", "results", "attributes"),
    },
)
TEXT = RecordKind("Text", "A text of a list.", _ranges("text"))
PROGRAM = RecordKind(
    "Program",
    "What a run needs to know; the first thing in its section. `runtime` is the version of the\n"
    "runtime's ABI.",
    {
        **_numbers("runtime", "replicas", "partitions", "has_processor"),
        **_ranges("triple", "cpu", "features", "data_layout"),
        **_ranges("name", "entry", "result_shape"),
        **_ranges("allocations", "parameters", "results", "objects", "call_sites"),
        **_ranges("infeeds", "outfeeds", "argument_shapes"),
        **_ranges("argument_names", "result_names"),
    },
)
ARRAY = RecordKind(
    "Array",
    "An argument or a result as callers see it: `leaf` is its number among the program's\n"
    "parameters or results, -1 for a token that is none; `type` that of PJRT; `dims` are those of\n"
    "what a device has.",
    {
        **_numbers("leaf", "is_donated", "type", "memory_kind"),
        **_ranges("dims", "layout", "sharding"),
    },
)
SHARD_SPEC = RecordKind(
    "ShardSpec",
    "How a parameter or result of the entry stands on devices, as it was given.",
    {**_ranges("sharding"), **_numbers("memory_kind")},
)
LAUNCH_SPEC = RecordKind(
    "LaunchSpec",
    "Where a program runs; the first thing in its section.",
    {
        **_ranges("made_by", "fingerprint"),
        **_numbers("replicas", "partitions", "is_portable"),
        **_ranges("devices", "donated", "arguments", "results"),
        **_ranges("argument_shard_specs", "result_shard_specs", "together_ms"),
    },
)
RECORDS: Final = (
    *(HEAD, SECTION, LABEL, LABELS, ALLOCATION, PARAMETER, RESULT, OBJECT, CALL_BUFFER),
    *(ATTRIBUTE, CALL_SITE, TEXT, PROGRAM, ARRAY, SHARD_SPEC, LAUNCH_SPEC),
)
ALLOCATION_KINDS: Final = ("parameter", "constant", "output", "temp")
"""By number."""


class SectionWriter:
    """Makes a section whose first record is given last: it says where the rest stands."""

    def __init__(self, first: RecordKind) -> None:
        self._first = first
        self._data = bytearray(first.format.size)
        self._places: dict[bytes, int] = {}

    def text(self, text: str | bytes) -> Range:
        """A text, or bytes; equal ones stand there once."""
        data = text.encode(errors="surrogateescape") if isinstance(text, str) else text
        return self._placed(data, len(data))

    def numbers(self, values: Sequence[int]) -> Range:
        """Numbers."""
        if not values:
            return EMPTY
        return self._placed(struct.pack(f"<{len(values)}q", *values), len(values))

    def records(self, kind: RecordKind, rows: Iterable[Mapping[str, Any]]) -> Range:
        """Records of a kind."""
        packed = [kind.pack(row) for row in rows]
        return self._placed(b"".join(packed), len(packed))

    def texts(self, texts: Iterable[str | bytes]) -> Range:
        """A list of texts."""
        return self.records(TEXT, [{"text": self.text(t)} for t in texts])

    def _placed(self, data: bytes, count: int) -> Range:
        at = self._places.get(data)
        if at is None:
            self._data += bytes(-len(self._data) % 8)
            at = self._places[data] = len(self._data)
            self._data += data
        return Range(at, count)

    def finished(self, values: Mapping[str, Any]) -> bytes:
        """The section, with its first record."""
        first = self._first.pack(values)
        self._data[: len(first)] = first
        return bytes(self._data)


class SectionReader:
    """Reads a section; ValueError for what does not stand in it."""

    def __init__(self, data: memoryview) -> None:
        self._data = data

    def first(self, kind: RecordKind) -> Any:
        """The record that it begins with."""
        return self.records(kind, Range(0, 1))[0]

    def bytes(self, place: Range) -> bytes:
        return bytes(self._piece(place, 1))

    def text(self, place: Range) -> str:
        return self.bytes(place).decode(errors="surrogateescape")

    def numbers(self, place: Range) -> tuple[int, ...]:
        return struct.unpack(f"<{place.count}q", self._piece(place, 8))

    def records(self, kind: RecordKind, place: Range) -> list[Any]:
        piece = self._piece(place, kind.format.size)
        return [kind.unpack(flat) for flat in kind.format.iter_unpack(piece)]

    def texts(self, place: Range) -> list[str]:
        return [self.text(row.text) for row in self.records(TEXT, place)]

    def _piece(self, place: Range, size: int) -> memoryview:
        end = place.at + place.count * size
        if place.at < 0 or place.count < 0 or end > len(self._data):
            raise ValueError(f"{place.count} things at {place.at} leave a section")
        return self._data[place.at : end]
