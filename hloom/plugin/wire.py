"""The wire format of protobuf, as far as two messages need it whose schema is jaxlib's own."""

from __future__ import annotations


def fields(message: bytes) -> list[tuple[int, int | bytes]]:
    """Numbers and values of the fields of a message of varints and bytes."""
    fields_: list[tuple[int, int | bytes]] = []
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        value, at = varint(message, at)
        if tag & 7 == 2:
            fields_.append((tag >> 3, message[at : at + value]))
            at += value
        else:
            fields_.append((tag >> 3, value))
    return fields_


def varints(data: bytes) -> list[int]:
    """Packed numbers."""
    numbers, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        numbers.append(value)
    return numbers


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a byte, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def bytes_field(number: int, data: bytes) -> bytes:
    """A field that holds bytes, or a message."""
    return written_varint(number << 3 | 2) + written_varint(len(data)) + data


def number_field(number: int, value: int) -> bytes:
    """A field that holds a number from 0 on."""
    return written_varint(number << 3) + written_varint(value)


def written_varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
