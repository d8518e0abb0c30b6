"""The frame of the saved form (saved_form.py): sections sealed in one file, and opened again.

Nothing in the bytes is believed before its checksum has been seen to be right; native/saved.cc
reads the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hloom.base.diagnostics import HloError
from hloom.program.saved_form import (
    BYTE_ORDER,
    HEAD,
    MAGIC,
    MOST_SECTIONS,
    PAGE,
    SECTION,
    VERSION,
    SectionKind,
)
from hloom.program.slice import ALIGNMENT

RULE: Final = "saved-program"
WHAT: Final = "saved program"
_MAGIC_NUMBER = int.from_bytes(MAGIC, "little")
_SUMMED_HEAD = HEAD.format.size - 4
"""Bytes of the head before its checksum."""

Piece = bytes | memoryview
Crc32 = Callable[[Piece, int], int]
"""Of these bytes, and of the sum of those before: zlib's, or a faster one."""


class Section(NamedTuple):
    """What is to stand in a section: pieces that follow one another."""

    kind: SectionKind
    pieces: Sequence[Piece]


_WRONG_SUM = f"the checksum of a {WHAT} is wrong"
_ALTERED = "the file was altered since it was written: copy it again, or compile it again"


def malformed(message: str, hint: str | None = None) -> HloError:
    """What is raised of bytes that are no saved program."""
    return HloError(message, rule=RULE, hint=hint)


def sealed(sections: Sequence[Section]) -> bytes:
    """The file of these sections, which are in the order of their kinds."""
    return b"".join(sealed_pieces(sections))


def sealed_pieces(sections: Sequence[Section], crc32: Crc32 = zlib.crc32) -> list[Piece]:
    """The same in pieces that follow one another, so that constants need not be copied."""
    assert list(sections) == sorted(sections, key=lambda s: s.kind)
    at = HEAD.format.size + SECTION.format.size * len(sections)
    rows: list[bytes] = []
    body: list[Piece] = []
    for section in sections:
        begin = _aligned(at, section.kind)
        size, crc = sum([len(piece) for piece in section.pieces]), 0
        for piece in section.pieces:
            crc = crc32(piece, crc)
        rows.append(SECTION.format.pack(section.kind, crc, begin, size))
        body += (bytes(begin - at), *section.pieces)
        at = begin + size
    head = HEAD.format.pack(_MAGIC_NUMBER, VERSION, BYTE_ORDER, at, len(sections), 0)
    head = head[:_SUMMED_HEAD]
    crc = zlib.crc32(b"".join(rows), zlib.crc32(head))
    return [head, crc.to_bytes(4, "little"), *rows, *body]


class SectionHeader(NamedTuple):
    """Kind, checksum and extent of a section."""

    kind: int
    crc: int
    at: int
    size: int


def section_headers(data: Piece) -> tuple[int, list[SectionHeader]]:
    """Bytes of the whole, and the headers of the sections, of a file whose beginning is given."""
    view = memoryview(data)
    if len(view) < HEAD.format.size or bytes(view[: len(MAGIC)]) != MAGIC:
        raise malformed(f"these bytes are no {WHAT}")
    _, version, order, size, count, crc = HEAD.format.unpack_from(view)
    if version != VERSION:
        raise malformed(
            f"a {WHAT} has version {version}, this hloom reads {VERSION}", "compile it again"
        )
    if order != BYTE_ORDER:
        raise malformed(f"a {WHAT} is of a machine of another byte order", "compile it again")
    end = HEAD.format.size + SECTION.format.size * count
    if count > MOST_SECTIONS or end > len(view):
        raise malformed(f"a {WHAT} is cut off", _ALTERED)
    rows = view[HEAD.format.size : end]
    if zlib.crc32(rows, zlib.crc32(view[:_SUMMED_HEAD])) != crc:
        raise malformed(_WRONG_SUM, _ALTERED)
    headers = [SectionHeader(*row) for row in SECTION.format.iter_unpack(rows)]
    for before, header in zip([SectionHeader(0, 0, 0, end), *headers], headers):
        expected = _aligned(before.at + before.size, header.kind)
        if header.kind < before.kind or header.at != expected or header.size < 0:
            raise malformed(f"the sections of a {WHAT} are out of order", _ALTERED)
    if size != (headers[-1].at + headers[-1].size if headers else end):
        raise malformed(f"the sections of a {WHAT} are not all of it", _ALTERED)
    return size, headers


def opened(data: Piece, crc32: Crc32 = zlib.crc32) -> list[tuple[int, memoryview]]:
    """The sections with their kinds, as they were sealed; `HloError` for any other bytes."""
    view = memoryview(data)
    size, headers = section_headers(view)
    if size != len(view):
        raise malformed(
            f"a {WHAT} of {size} bytes has {len(view)}",
            "the file was cut off, or is being written" if size > len(view) else _ALTERED,
        )
    before = HEAD.format.size + SECTION.format.size * len(headers)
    for header in headers:
        if bytes(view[before : header.at]).strip(b"\0"):
            raise malformed(_WRONG_SUM, _ALTERED)
        _checked(view, header, crc32)
        before = header.at + header.size
    return [(h.kind, view[h.at : h.at + h.size]) for h in headers]


def opened_section(data: Piece, kind: SectionKind) -> memoryview | None:
    """One section, of a file of which nothing behind it needs to be given; None: it has none."""
    for header in section_headers(data)[1]:
        if header.kind == kind:
            return _checked(memoryview(data), header, zlib.crc32)
    return None


def _checked(view: memoryview, header: SectionHeader, crc32: Crc32) -> memoryview:
    section = view[header.at : header.at + header.size]
    if len(section) != header.size or crc32(section, 0) != header.crc:
        raise malformed(_WRONG_SUM, _ALTERED)
    return section


def _aligned(at: int, kind: int) -> int:
    """The first byte from `at` on at which a section of this kind may begin."""
    alignment = PAGE if kind == SectionKind.CONSTANTS else ALIGNMENT
    return -(-at // alignment) * alignment
