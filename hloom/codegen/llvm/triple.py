"""Triples as LLVM reads them: by place, so `x86_64-windows-gnu` would have a vendor called windows,
no system, and objects of the wrong format. People write them as clang takes them."""

from __future__ import annotations

_SYSTEMS = (
    *("linux", "windows", "mingw", "cygwin", "darwin", "macos", "ios", "wasi", "none"),
    *("freebsd", "netbsd", "openbsd", "emscripten", "android", "uefi"),
)
_INTERFACES = ("eabi", "gnu", "musl", "elf", "msvc", "android", "macho", "coff")
"""How words begin that say what is called how, or in which format."""


def full_triple(triple: str) -> str:
    """Architecture, vendor, system and binary interface of a triple, each in its place."""
    architecture, *words = triple.split("-")
    vendor = ""
    if words and not _is_system(words):
        vendor = words.pop(0)
    if words and words[0].startswith(_INTERFACES) and not words[0].startswith("android"):
        words.insert(0, "none" if words[0].startswith(("eabi", "elf")) else "unknown")
    if words and words[0].startswith("mingw"):
        words[:1] = ["windows", "gnu"]
    is_apple = bool(words) and words[0].startswith(("darwin", "macos", "ios"))
    return "-".join([architecture, vendor or ("apple" if is_apple else "unknown"), *words])


def _is_system(words: list[str]) -> bool:
    """Whether the first of these is a system, not a vendor; `none` is one or the other."""
    if words[0] == "none":
        return len(words) == 1 or not words[1].startswith(_SYSTEMS)
    return words[0].startswith((*_SYSTEMS, *_INTERFACES))
