"""Sealed containers: they open as they were sealed, and every changed byte is seen."""

import pytest

from hloom.base.diagnostics import HloError
from hloom.program.container import (
    ContainerKind,
    container_places,
    container_section,
    container_sections,
    sealed_container,
)

INNER = ContainerKind(b"innermag", 1, 1, "inner thing", "inner")
KIND = ContainerKind(b"outermag", 7, 4, "outer thing", "outer")
NESTED = sealed_container(INNER, [[b"in", b"side"]])
SECTIONS = ([b"a" * 65, b"", b"b"], [], [NESTED], [b"last"])
DATA = sealed_container(KIND, SECTIONS, nested=[2])


def whole(data):
    """Everything that is in a container, those in it opened too."""
    sections = container_sections(KIND, data)
    return [bytes(s) for s in sections], [bytes(s) for s in container_sections(INNER, sections[2])]


def test_what_was_sealed_is_there():
    assert whole(DATA) == ([b"a" * 65 + b"b", b"", NESTED, b"last"], [b"inside"])
    assert whole(memoryview(DATA)) == whole(DATA)
    assert all(p.at % 64 == 0 for p in container_places(KIND, DATA))
    assert [p.crc is None for p in container_places(KIND, DATA)] == [False, False, True, False]


def test_a_section_is_read_without_what_stands_behind_it():
    assert bytes(container_section(KIND, DATA[: KIND.head_bytes + 66], 0)) == b"a" * 65 + b"b"
    with pytest.raises(HloError, match="checksum of a outer thing"):
        container_section(KIND, DATA[: KIND.head_bytes + 65], 0)


def test_every_changed_byte_is_seen():
    for at in range(len(DATA)):
        for change in (1, 0x80, 0xFF):
            wrong = bytearray(DATA)
            wrong[at] ^= change
            with pytest.raises(HloError):
                whole(bytes(wrong))


def test_every_other_length_is_seen():
    for size in range(len(DATA)):
        with pytest.raises(HloError):
            whole(DATA[:size])
    for more in (b"\0", b"x", bytes(64)):
        with pytest.raises(HloError, match=f"of {len(DATA)} bytes has {len(DATA) + len(more)}"):
            whole(DATA + more)


def test_other_versions_and_kinds_are_named():
    older = ContainerKind(KIND.magic, 6, 4, "outer thing", "outer")
    with pytest.raises(HloError, match="has version 6, this hloom reads 7") as told:
        whole(sealed_container(older, SECTIONS, nested=[2]))
    assert (told.value.rule, told.value.hint) == ("outer", "compile it again")
    with pytest.raises(HloError, match="these bytes are no outer thing"):
        whole(NESTED)
