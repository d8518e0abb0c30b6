"""Sealed containers: the frame that every saved form has, so that damage is seen before use.

    magic      8 bytes
    version    32 bits, as all that follows little endian
    count      of sections, 32 bits
    sections   of each: size in bytes (64 bits), CRC-32 (32), flags (32; 1: it is sealed itself)
    checksum   CRC-32 of everything before it
    the sections, each at a multiple of 64 bytes; zeros between

CRC-32 sees every change within 32 neighbouring bits, so every changed byte; it is no signature:
whoever may write a saved program may make it do anything (docs/security.md). A section that is a
container itself has its own checksums, and is not summed twice: constants may be gigabytes.
native/container.cc reads the same.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from hloom.base.diagnostics import HloError
from hloom.program.slice import ALIGNMENT

_FIXED = struct.Struct("<8sII")
_ROW = struct.Struct("<QII")
_SUM = struct.Struct("<I")
_SEALED_ITSELF = 1

Section = Sequence[bytes | memoryview]
"""Pieces that follow one another."""


class ContainerKind(NamedTuple):
    """What kind of container: how it begins, and what to call it."""

    magic: bytes
    version: int
    sections: int
    what: str
    rule: str

    def error(self, message: str, hint: str | None = None) -> HloError:
        """What is raised of bytes that are none."""
        return HloError(message, rule=self.rule, hint=hint)

    @property
    def head_bytes(self) -> int:
        """Bytes before the first section."""
        return _aligned(_FIXED.size + self.sections * _ROW.size + _SUM.size)


class Place(NamedTuple):
    """Where a section stands, and its checksum; None where it is sealed itself."""

    at: int
    size: int
    crc: int | None


def sealed_container(
    kind: ContainerKind, sections: Sequence[Section], nested: Sequence[int] = ()
) -> bytes:
    """The container of these sections, those numbered in `nested` being containers."""
    rows: list[bytes] = []
    body: list[bytes | memoryview] = []
    for number, pieces in enumerate(sections):
        size, crc = sum([len(p) for p in pieces]), 0
        is_nested = number in nested
        for piece in () if is_nested else pieces:
            crc = zlib.crc32(piece, crc)
        rows.append(_ROW.pack(size, crc, _SEALED_ITSELF if is_nested else 0))
        body += pieces
        if number + 1 < len(sections):
            body.append(bytes(_aligned(size) - size))
    head = b"".join([_FIXED.pack(kind.magic, kind.version, kind.sections), *rows])
    head += _SUM.pack(zlib.crc32(head))
    return b"".join([head, bytes(kind.head_bytes - len(head)), *body])


def container_places(kind: ContainerKind, data: bytes | memoryview) -> list[Place]:
    """Where the sections stand, of a container of which only its head needs to be given."""
    view = memoryview(data)
    if len(view) < _FIXED.size or bytes(view[: len(kind.magic)]) != kind.magic:
        raise kind.error(f"these bytes are no {kind.what}")
    _, version, count = _FIXED.unpack_from(view)
    if version != kind.version:
        raise kind.error(
            f"a {kind.what} has version {version}, this hloom reads {kind.version}",
            "compile it again",
        )
    sum_at = _FIXED.size + kind.sections * _ROW.size
    if len(view) < sum_at + _SUM.size:
        raise kind.error(f"a {kind.what} is cut off")
    (crc,) = _SUM.unpack_from(view, sum_at)
    if count != kind.sections or zlib.crc32(view[:sum_at]) != crc:
        raise kind.error(f"the checksum of a {kind.what} is wrong")
    found: list[Place] = []
    at = kind.head_bytes
    for size, section_crc, flags in _ROW.iter_unpack(view[_FIXED.size : sum_at]):
        found.append(Place(at, size, None if flags & _SEALED_ITSELF else section_crc))
        at = _aligned(at + size)
    return found


def container_sections(kind: ContainerKind, data: bytes | memoryview) -> list[memoryview]:
    """The sections, as they were sealed; an error of the kind for any other bytes."""
    view = memoryview(data)
    found = container_places(kind, view)
    end = found[-1].at + found[-1].size
    if end != len(view):
        raise kind.error(
            f"a {kind.what} of {end} bytes has {len(view)}",
            "the file was cut off, or is being written" if end > len(view) else None,
        )
    before = _FIXED.size + kind.sections * _ROW.size + _SUM.size
    for place in found:
        section = view[place.at : place.at + place.size]
        is_whole = place.crc is None or zlib.crc32(section) == place.crc
        if not is_whole or any(view[before : place.at]):
            raise kind.error(f"the checksum of a {kind.what} is wrong")
        before = place.at + place.size
    return [view[p.at : p.at + p.size] for p in found]


def container_section(kind: ContainerKind, data: bytes | memoryview, number: int) -> memoryview:
    """One section, of a container of which nothing behind that needs to be given."""
    place = container_places(kind, data)[number]
    found = memoryview(data)[place.at : place.at + place.size]
    if place.crc is not None and zlib.crc32(found) != place.crc:
        raise kind.error(f"the checksum of a {kind.what} is wrong")
    return found


def _aligned(at: int) -> int:
    return -(-at // ALIGNMENT) * ALIGNMENT
