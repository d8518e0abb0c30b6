"""A LAPACK for large matrices, eigenvalues and singular values: the OpenBLAS that scipy or numpy
bring along, or the system's.

Why at run time: hloom is built against none, and runs without one (its own code is then used at all
sizes). The trick: OpenBLAS in their wheels exports every LAPACK routine under names with a prefix
and a suffix, which also say whether its integers have 4 or 8 bytes.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

VARIABLE = "HLOOM_LAPACK"
"""Names a library to take instead, or `none`."""
NONE = "none"

# (prefix, suffix, bytes of an integer) of the names that builds of LAPACK export.
SPELLINGS = (("scipy_", "_64_", 8), ("scipy_", "_", 4), ("", "_64_", 8), ("", "_", 4))

REAL_AND_COMPLEX = "potrf getrf geqrf geqp3 gesdd gesvd geev gees gehrd trsm".split()
ROUTINES = (
    *(t + name for name in REAL_AND_COMPLEX for t in "sdcz"),
    *(t + name for name in ("orgqr", "ormqr", "syevd", "sytrd") for t in "sd"),
    *(t + name for name in ("ungqr", "unmqr", "heevd", "hetrd") for t in "cz"),
)

THREADS = ("get_num_threads", "set_num_threads")
"""Functions of OpenBLAS beside LAPACK's."""


def candidates() -> Iterator[str]:
    """Paths and names of libraries that may hold LAPACK, best first."""
    named = os.environ.get(VARIABLE)
    if named:
        yield from () if named == NONE else (named,)
        return
    packages = Path(np.__file__).parent.parent
    # scipy's first: jaxlib calls it, and JAX's numbers should not depend on who asks.
    for folder in ("scipy.libs", "numpy.libs", "scipy/.dylibs", "numpy/.dylibs"):
        yield from map(str, sorted((packages / folder).glob("*openblas*")))
    import ctypes.util  # slow to import, and wanted last

    for name in ("openblas", "lapack"):
        if path := ctypes.util.find_library(name):
            yield path


def register(runtime: ctypes.CDLL) -> str | None:
    """Hands the runtime the first LAPACK that has every routine; its path, None without one."""
    for path in candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        for prefix, suffix, integer_bytes in SPELLINGS:
            if not hasattr(library, f"{prefix}spotrf{suffix}"):
                continue
            names = [f"{prefix}{name}{suffix}" for name in ROUTINES]
            if not all(hasattr(library, name) for name in names):
                continue
            for name, full in zip(ROUTINES, names):
                address = ctypes.cast(getattr(library, full), ctypes.c_void_p)
                runtime.hl_lapack_register(name.encode(), address, ctypes.c_int64(integer_bytes))
            _register_threads(runtime, library, prefix, suffix.removeprefix("_"))
            return path
    return None


def _register_threads(runtime: ctypes.CDLL, library: ctypes.CDLL, prefix: str, suffix: str) -> None:
    """How many threads an OpenBLAS uses can be asked and changed: both functions, or neither."""
    names = [f"{prefix}openblas_{name}{suffix}" for name in THREADS]
    if all(hasattr(library, name) for name in names):
        for name, full in zip(THREADS, names):
            address = ctypes.cast(getattr(library, full), ctypes.c_void_p)
            runtime.hl_lapack_register(name.encode(), address, ctypes.c_int64(8))


def unregister(runtime: ctypes.CDLL) -> None:
    """From here on our own code is used at all sizes."""
    for name in (*ROUTINES, *THREADS):
        runtime.hl_lapack_register(name.encode(), ctypes.c_void_p(None), ctypes.c_int64(8))
