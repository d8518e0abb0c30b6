"""Other names for the symbols of an ELF object, whose code stays as it is.

Source of the format: System V Application Binary Interface, chapters 4 (object files) and 5.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

_HEADER_BYTES = 64
_IS_ELF64 = b"\x7fELF\x02\x01"
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL_BYTES = 24
_SYMTAB, _STRTAB, _NOBITS = 2, 3, 8


def renamed(content: bytes, names: Mapping[str, str]) -> bytes | None:
    """An object (64 bits, little-endian) with other names for some of its symbols; None for one
    that is laid out in another way than LLVM does: names last, before the table of sections.

    The table of names is written anew, so the result does not depend on what names there were.
    """
    if len(content) < _HEADER_BYTES or not content.startswith(_IS_ELF64):
        return None
    (table,) = struct.unpack_from("<Q", content, 40)
    entry_bytes, count, names_at = struct.unpack_from("<HHH", content, 58)
    is_whole = table + count * _SECTION.size <= len(content)
    if entry_bytes != _SECTION.size or not names_at < count or not is_whole:
        return None
    sections = [list(_SECTION.unpack_from(content, table + k * entry_bytes)) for k in range(count)]
    symbols = [s for s in sections if s[1] == _SYMTAB]
    strings = sections[names_at]
    start, size = strings[4], strings[5]
    ends = [s[4] + s[5] for s in sections if s is not strings and s[1] not in (0, _NOBITS)]
    if strings[1] != _STRTAB or len(symbols) != 1 or symbols[0][6] != names_at:
        return None
    if max(ends, default=0) > start or start + size > table:
        return None
    old = content[start : start + size]
    text = bytearray(b"\0")
    at: dict[bytes, int] = {b"": 0}

    def moved(offset: int, by: Mapping[str, str]) -> int:
        name = old[offset : old.index(b"\0", offset)]
        name = by.get(name.decode(), "").encode() or name
        if name not in at:
            at[name] = len(text)
            text.extend(name + b"\0")
        return at[name]

    result = bytearray(content[:start])
    for section in sections:
        section[0] = moved(section[0], {})
    first, length = symbols[0][4], symbols[0][5]
    for place in range(first, first + length, _SYMBOL_BYTES):
        (offset,) = struct.unpack_from("<I", result, place)
        struct.pack_into("<I", result, place, moved(offset, names))
    strings[5] = len(text)
    result += text
    result += bytes(-len(result) % 8)
    struct.pack_into("<Q", result, 40, len(result))
    for section in sections:
        result += _SECTION.pack(*section)
    return bytes(result)
