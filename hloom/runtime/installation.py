"""What of the native runtime is there: its library, what it was built from, what could build it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hloom.runtime.build import compiler
from hloom.runtime.native_sources import LIBRARY, BuildError, is_checkout, is_stale


@dataclass(frozen=True)
class NativeLibrary:
    """The library of the runtime as it is found, before anything is built."""

    path: Path
    is_named: bool
    """Whether $HLOOM_RUNTIME_LIBRARY says so."""
    is_there: bool
    is_built_here: bool
    """Whether this is a checkout, which builds the library when it is missing or stale."""
    is_stale: bool
    """Whether a source is newer; the next use of the library builds it again."""
    compiler: str | None
    """What would build it; None where there is none."""
    error: str | None
    """Why it cannot be loaded, or be built first."""


def native_library() -> NativeLibrary:
    """What is there of the native runtime; it is loaded, and so built where it is stale."""
    from hloom.runtime.library import library

    named = os.environ.get("HLOOM_RUNTIME_LIBRARY")
    path = Path(named) if named else LIBRARY
    is_there, here = path.is_file(), is_checkout() and not named
    stale = here and is_stale()
    try:
        builder = " ".join(compiler())
    except BuildError:
        builder = None
    try:
        library()
        error = None
    except BuildError as problem:
        error = str(problem)
    return NativeLibrary(path, bool(named), is_there, here, stale, builder, error)
