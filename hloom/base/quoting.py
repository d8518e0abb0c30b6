"""Strings inside quotes, with the escapes of C, as HLO writes them."""

from __future__ import annotations

import re

_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|(.))", re.S)
_SIMPLE_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f"}
_SIMPLE_ESCAPES |= {b"v": b"\v"}


def unescape(text: str) -> str:
    """Undo the C escapes of a quoted string."""
    if "\\" not in text:
        return text

    def one(match: re.Match[bytes]) -> bytes:
        octal, hexadecimal, char = match.groups()
        if octal:
            return bytes([int(octal, 8) & 255])
        if hexadecimal:
            return bytes([int(hexadecimal, 16)])
        return _SIMPLE_ESCAPES.get(char, char)

    return _ESCAPE.sub(one, text.encode()).decode("utf-8", "surrogateescape")


def escape(text: str) -> str:
    """The C escapes that HLO writes inside quotes; bytes that are not ASCII become octal."""
    if text.isascii() and text.isprintable() and not any(c in text for c in "\\\"'"):
        return text
    out = []
    for byte in text.encode("utf-8", "surrogateescape"):
        char = chr(byte)
        if char in "\\\"'":
            out.append("\\" + char)
        elif char in "\n\t\r":
            out.append({"\n": "\\n", "\t": "\\t", "\r": "\\r"}[char])
        elif 32 <= byte < 127:
            out.append(char)
        else:
            out.append(f"\\{byte:03o}")
    return "".join(out)
