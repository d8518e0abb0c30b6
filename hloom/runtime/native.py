"""The native library, opened with ctypes; rebuilt first if a checkout holds newer sources."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

from hloom.runtime.build import LIBRARY, BuildError, build, is_checkout, is_stale


@cache
def library() -> ctypes.CDLL:
    """The open library; every call through it releases the GIL. Raises BuildError.

    $HLOOM_RUNTIME_LIBRARY names another library file, which is then taken as it is.
    """
    if named := os.environ.get("HLOOM_RUNTIME_LIBRARY"):
        path = Path(named)
    else:
        path = build() if is_checkout() and is_stale() else LIBRARY
    try:
        opened = ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(
            f"hloom's native runtime cannot be loaded from {path}: {error}",
            rule="native-load",
            hint="reinstall hloom; in a checkout remove the file, and it is built again",
        ) from None
    return opened
