"""What files a library can be, by their endings, and which system has which."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from hloom.api import UsageError

KINDS: Mapping[str, str] = {
    ".so": "shared",
    ".dylib": "shared",
    ".dll": "shared",
    ".wasm": "shared",
    ".a": "archive",
    ".lib": "archive",
    ".o": "object",
    ".obj": "object",
}
_ENDINGS: Mapping[str, tuple[str, ...]] = {
    "linux": (".so", ".a", ".o"),
    "macos": (".dylib", ".a", ".o"),
    "windows": (".dll", ".lib", ".a", ".obj", ".o"),
    "wasm": (".wasm", ".a", ".o"),
    "": (".a", ".o"),
}


def kind_of(path: PurePath) -> str:
    """What a file of this name is: `shared`, `archive`, `object`; empty: none of these."""
    return KINDS.get(path.suffix.lower(), "")


def check_ending(path: PurePath, system: str, triple: str) -> None:
    """`UsageError` where a system has no libraries of this name."""
    if path.suffix.lower() not in _ENDINGS[system]:
        raise UsageError(
            f"{path.name} is no library of {triple}",
            rule="library-file",
            hint=f"there it ends with one of {', '.join(_ENDINGS[system])};"
            " --target_triple=aarch64-apple-macos names another system",
        )
