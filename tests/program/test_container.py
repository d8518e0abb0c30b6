"""The frame of saved programs: it opens as it was sealed, and every changed byte is seen."""

import zlib

import numpy as np
import pytest

from hloom.base.diagnostics import HloError
from hloom.program import container
from hloom.program.container import Section, opened, opened_section, sealed, section_headers
from hloom.program.saved_form import HEAD, SECTION, SectionKind

SECTIONS = (
    Section(SectionKind.LABELS, [b"a" * 65, b"", b"b"]),
    Section(SectionKind.PROGRAM, []),
    Section(SectionKind.MODULE, [sealed([Section(SectionKind.OBJECTS, [b"in", b"side"])])]),
    Section(SectionKind.CONSTANTS, [b"another"]),
    Section(SectionKind.CONSTANTS, [b"last"]),
)
DATA = sealed(SECTIONS)
HEAD_BYTES = HEAD.format.size + SECTION.format.size * len(SECTIONS)


def whole(data):
    """Everything that is in a file."""
    return [(kind, bytes(section)) for kind, section in opened(data)]


def test_what_was_sealed_is_there():
    assert whole(DATA) == [(s.kind, b"".join(s.pieces)) for s in SECTIONS]
    assert whole(memoryview(DATA)) == whole(DATA)
    assert whole(whole(DATA)[2][1]) == [(SectionKind.OBJECTS, b"inside")]
    size, headers = section_headers(DATA)
    assert size == len(DATA)
    assert all(p.at % 64 == 0 for p in headers)
    assert all(p.at % 4096 == 0 for p in headers[3:])
    assert whole(sealed([])) == []


def test_a_section_is_read_without_what_stands_behind_it():
    begin = DATA[: -(-HEAD_BYTES // 64) * 64 + 66]
    found = opened_section(begin, SectionKind.LABELS)
    assert found is not None and bytes(found) == b"a" * 65 + b"b"
    assert opened_section(begin, SectionKind.OPTIONS) is None
    with pytest.raises(HloError, match="checksum of a saved program"):
        opened_section(begin[:-1], SectionKind.LABELS)


def test_every_changed_byte_is_seen():
    for at in [*range(HEAD_BYTES + 200), *range(HEAD_BYTES + 200, len(DATA), 7), len(DATA) - 1]:
        for change in (1, 0x80, 0xFF):
            wrong = bytearray(DATA)
            wrong[at] ^= change
            with pytest.raises(HloError):
                whole(bytes(wrong))


def test_every_other_length_is_seen():
    for size in [*range(HEAD_BYTES + 200), *range(HEAD_BYTES + 200, len(DATA), 61)]:
        with pytest.raises(HloError):
            whole(DATA[:size])
    for more in (b"\0", b"x", bytes(64), DATA):
        with pytest.raises(HloError, match=f"of {len(DATA)} bytes has {len(DATA) + len(more)}"):
            whole(DATA + more)


def test_other_versions_and_files_are_named(monkeypatch):
    monkeypatch.setattr(container, "VERSION", container.VERSION + 1)
    newer = sealed(SECTIONS)
    monkeypatch.undo()
    with pytest.raises(HloError, match=r"has version \d+, this hloom reads \d+") as told:
        whole(newer)
    assert (told.value.rule, told.value.hint) == ("saved-program", "compile it again")
    with pytest.raises(HloError, match="these bytes are no saved program"):
        whole(DATA[1:])
    with pytest.raises(HloError, match="another byte order"):
        monkeypatch.setattr(container, "BYTE_ORDER", 0x04030201)
        other = sealed(SECTIONS)
        monkeypatch.undo()
        whole(other)


def test_the_native_checksum_is_that_of_zlib():
    from hloom.runtime.library import library

    data = np.random.default_rng(0).bytes(120_000)
    # On both sides of 16, 64 and 256 bytes, and of three streams of 16,384.
    sizes = [*range(600), 1000, 4096, 4999, *range(49151, 49170), 98303, 98304, 98321]
    for size in sizes:
        for start in (0, 1, 7):
            piece = data[start : start + size]
            for crc in (0, 0xDEADBEEF):
                assert library().hl_crc32(crc, piece, len(piece)) == zlib.crc32(piece, crc)
