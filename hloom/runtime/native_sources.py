"""The native runtime's library and its sources: where they are, whether one of them is newer.

Apart from `build.py`, which is imported only where something is to be built.
"""

from __future__ import annotations

import os
from pathlib import Path

from hloom.base.diagnostics import HloError

SOURCES = Path(__file__).parent / "native"
LIBRARY = SOURCES / "libhloom_runtime.so"
# Without it, templates of the C++ library would be seen, and taken, by others in the process.
EXPORTS = SOURCES / "exports.map"
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
# Files that say how to build: when one is newer, the library is linked again.
RULES = [EXPORTS, SOURCES.parent / "build.py"]


class BuildError(HloError):
    """The native library could not be compiled, or there is nothing to compile it with."""


def sources(folder: Path = SOURCES) -> tuple[list[Path], list[Path]]:
    """The files to compile and those they may include, sorted; those of `pjrt/` are among them."""
    # Names and no globs: every process that runs something in a checkout waits for this.
    inner = folder / "pjrt"
    names = os.listdir(folder)
    below = [f"{inner.name}/{name}" for name in os.listdir(inner)] if inner.name in names else []
    compiled = [name for name in (*names, *below) if name.endswith(".cc")]
    included = [name for name in (*names, *below) if name.endswith((".h", ".inc"))]
    return [folder / name for name in sorted(compiled)], [folder / n for n in sorted(included)]


def is_checkout() -> bool:
    """Whether this package lies in a source tree, where the library may be rebuilt."""
    return PYPROJECT.exists() and any(SOURCES.glob("*.cc"))


def newest(paths: list[Path]) -> int:
    """The newest time stamp, in nanoseconds."""
    return max(path.stat().st_mtime_ns for path in paths)


def is_stale(library: Path = LIBRARY, folder: Path = SOURCES) -> bool:
    """Whether the library is missing, older than a source, or linked of other files."""
    compiled, headers = sources(folder)
    try:
        stamp = library.stat().st_mtime_ns
        linked = list_of_sources(library).read_text().split("\n")
    except OSError:
        return True
    if linked != [path.name for path in compiled]:
        return True
    return newest([*compiled, *headers, *RULES]) > stamp


def list_of_sources(library: Path) -> Path:
    """Where the names of the files a library was linked of are written."""
    return library.parent / "build" / f"{library.name}.sources"
