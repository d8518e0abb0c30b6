"""Objects of which others see only what they are to see: C++ routines whose names are their own.

Routines are compiled of the runtime's sources, whose functions are in a namespace called as the
library. In a shared library nobody sees them; in a static one they would stand beside the
library's functions, so here they become symbols of their object alone.

Source of the format: System V Application Binary Interface, chapters 4 (object files) and 5.
"""

from __future__ import annotations

import struct
from collections.abc import Collection

_IS_ELF64 = b"\x7fELF\x02\x01"
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_SYMTAB, _RELA, _GROUP, _MORE_INDICES = 2, 4, 17, 18
_HINTS = (0x6FFF4C03, 0x6FFF4C09)
"""Sections of LLVM's that list symbols by number, and may be empty."""
_LOCAL = 0


def localised(content: bytes, seen: Collection[str]) -> bytes:
    """An ELF object of 64 bits in which the symbols that it defines are its own, but those that are
    to be seen; another object as it is."""
    if not content.startswith(_IS_ELF64):
        return content
    (table,) = struct.unpack_from("<Q", content, 40)
    (count,) = struct.unpack_from("<H", content, 60)
    places = [table + k * _SECTION.size for k in range(count)]
    sections = [_SECTION.unpack_from(content, place) for place in places]
    tables = [k for k, s in enumerate(sections) if s[1] == _SYMTAB]
    if len(tables) != 1 or any(s[1] == _MORE_INDICES for s in sections):
        return content
    result = bytearray(content)
    moved, first_global = _sorted_symbols(result, sections, tables[0], seen)
    for place, section in zip(places, sections):
        kind, at, size, link = section[1], section[4], section[5], section[6]
        if kind in _HINTS:
            struct.pack_into("<Q", result, place + 32, 0)
        elif link != tables[0]:
            continue
        elif kind == _RELA:
            for entry in range(at, at + size, _RELOCATION.size):
                offset, info, addend = _RELOCATION.unpack_from(result, entry)
                info = moved[info >> 32] << 32 | info & 0xFFFFFFFF
                _RELOCATION.pack_into(result, entry, offset, info, addend)
        elif kind == _GROUP:
            struct.pack_into("<I", result, place + 44, moved[section[7]])
            struct.pack_into("<I", result, at, 0)  # nobody else's stands for it
    struct.pack_into("<I", result, places[tables[0]] + 44, first_global)
    return bytes(result)


def _sorted_symbols(
    result: bytearray, sections: list[tuple[int, ...]], table: int, seen: Collection[str]
) -> tuple[list[int], int]:
    """Put the symbols in order, those of the object alone first; where each has gone, and the
    number of the first that others see."""
    at, size, link = sections[table][4:7]
    strings = sections[link][4]
    symbols = [list(_SYMBOL.unpack_from(result, p)) for p in range(at, at + size, _SYMBOL.size)]
    is_local = []
    for symbol in symbols:
        name, info, other, section = symbol[:4]
        end = result.index(b"\0", strings + name)
        if section and result[strings + name : end].decode() not in seen:
            symbol[1], symbol[2] = info & 15 | _LOCAL << 4, other & ~3
        is_local.append(symbol[1] >> 4 == _LOCAL)
    order = sorted(range(len(symbols)), key=lambda k: not is_local[k])
    moved = [0] * len(symbols)
    for new, old in enumerate(order):
        moved[old] = new
        _SYMBOL.pack_into(result, at + new * _SYMBOL.size, *symbols[old])
    return moved, sum(is_local)
