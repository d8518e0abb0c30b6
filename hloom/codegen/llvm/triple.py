"""Triples as LLVM reads them: by place, so `x86_64-windows-gnu` would have a vendor called windows,
no system, and objects of the wrong format. People write them as clang takes them."""

from __future__ import annotations

SYSTEMS = (
    *("linux", "windows", "mingw", "cygwin", "darwin", "macos", "ios", "wasi", "none"),
    *("freebsd", "netbsd", "openbsd", "emscripten", "android", "uefi", "tvos", "watchos"),
    *(
        "dragonfly",
        "fuchsia",
        "haiku",
        "hermit",
        "hurd",
        "rtems",
        "serenity",
        "solaris",
        "ps4",
        "ps5",
    ),
)
_INTERFACES = ("eabi", "gnu", "musl", "elf", "msvc", "android", "macho", "coff")
"""How words begin that say what is called how, or in which format."""

_NO_SYSTEM = ("unknown", "pc", "none")
"""Vendors that are none, which triples may end with."""


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


def unknown_system(triple: str) -> str:
    """The word of a triple that stands where its system does, and is none that is known; empty:
    all is well. LLVM takes any word for a system, and makes code as for a machine without one."""
    words = full_triple(triple).split("-")[1:]
    vendor, system, interface = [*words, "", "", ""][:3]
    if not system:
        return "" if vendor in (*_NO_SYSTEM, "") else vendor
    if not system.startswith((*SYSTEMS, "unknown")):
        return system
    if system == "unknown" and interface.startswith(("gnu", "musl", "msvc")):
        return interface if vendor in _NO_SYSTEM else vendor
    return ""


def _is_system(words: list[str]) -> bool:
    """Whether the first of these is a system, not a vendor; `none` is one or the other."""
    if words[0] == "none":
        return len(words) == 1 or not words[1].startswith(SYSTEMS)
    return words[0].startswith((*SYSTEMS, *_INTERFACES))
