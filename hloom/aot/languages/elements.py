"""What an array's elements are called in languages that have numbers of 8 to 64 bits alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hloom.aot.reading import Array

_KINDS = {"pred": "u8", "c64": "f32", "c128": "f64"} | {
    name: name for name in "s8 s16 s32 s64 u8 u16 u32 u64 f32 f64".split()
}


class Elements(NamedTuple):
    """Elements as a language has them: packed ones are bytes, small floats their bits, complex
    numbers two floats."""

    kind: str
    """`u8`, `s32`, `f64`, ..."""
    count: int


def elements(a: Array) -> Elements:
    """The elements of an input or output."""
    width = a.shape.dtype.size_bytes
    kind = _KINDS.get(a.shape.dtype.name)
    if kind is None:  # bits
        kind = f"u{8 * max(width, 1)}" if a.shape.dtype.bits >= 8 else "u8"
    return Elements(kind, a.size_bytes // (int(kind[1:]) // 8))


def identifiers(names: Iterable[str], words: frozenset[str]) -> list[str]:
    """Names that are no words of a language, each once."""
    chosen: list[str] = []
    for name in names:
        while name in words or name in chosen:
            name += "_"
        chosen.append(name)
    return chosen
