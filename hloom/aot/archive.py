"""Static libraries: the `ar` format of System V and GNU, with the index that linkers want."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

MAGIC = b"!<arch>\n"
HEADER_BYTES = 60


class ArchiveMember(NamedTuple):
    """An object, and what it defines for others."""

    name: str
    data: bytes
    symbols: Sequence[str]


def archive(members: Sequence[ArchiveMember]) -> bytes:
    """The library of these objects; the same bytes for the same members."""
    names = b"".join([f"{m.name}/\n".encode() for m in members])
    symbols = b"".join([s.encode() + b"\0" for m in members for s in m.symbols])
    count = sum([len(m.symbols) for m in members])
    index_bytes = 4 + 4 * count + len(symbols)
    at = len(MAGIC) + HEADER_BYTES + _even(index_bytes) + HEADER_BYTES + _even(len(names))
    places: list[int] = []
    for m in members:
        places += [at] * len(m.symbols)
        at += HEADER_BYTES + _even(len(m.data))
    index = struct.pack(f">I{count}I", count, *places) + symbols
    whole = [MAGIC, _member("/", index), _member("//", names)]
    start = 0
    for m in members:
        whole.append(_member(f"/{start}", m.data))
        start += len(m.name) + 2
    return b"".join(whole)


def _member(name: str, data: bytes) -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'644':<8}{len(data):<10}`\n".encode()
    return head + data + b"\n" * (_even(len(data)) - len(data))


def _even(size: int) -> int:
    return size + size % 2
