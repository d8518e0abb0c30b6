"""`hloom runtime-library -o DIR`: libhloom_rt.a, for C programs that load saved programs as files.

It is compiled from the runtime's own sources, those that need neither Python nor PJRT; what a
program does not use of it is left out when it is linked.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hloom.aot.link import RUNTIME, compiler, run
from hloom.api import UsageError

LIBRARY = "libhloom_rt.a"
FAILURE = f"{LIBRARY} cannot be made"
HEADERS = ("hloom_rt.h", "custom_call.h", "hl.h")
NOT_HERE = frozenset("own_function crash_note devices execution feed processes_mpi team".split())
"""Sources of what this runtime has not: feeds, buffers of hosts, devices that are run all at once;
and own_function.cc, for which there is rt/routines.cc."""
FLAGS = (
    *("-x", "c++", "-std=c++20", "-O3", "-fPIC", "-pthread", "-fno-exceptions", "-fno-rtti"),
    *("-fvisibility=hidden", "-fno-math-errno", "-ffp-contract=fast", "-ffunction-sections"),
    *("-fdata-sections", "-Wno-psabi"),
)
"""As the runtime itself is compiled, so that results are the same; a section for each function."""


def sources() -> list[Path]:
    """What is compiled."""
    shared = [p for p in RUNTIME.glob("*.cc") if p.stem not in NOT_HERE]
    return sorted([*shared, *(RUNTIME / "rt").glob("*.cc")])


def runtime_library(folder: str | Path) -> Path:
    """Write the library and its headers into a folder; where the library is.

    `HloError` with the compiler's words if it fails, `UsageError` if there is nothing to write to.
    """
    folder, words = Path(folder), compiler(LIBRARY)
    with tempfile.TemporaryDirectory() as work:

        def compiled(source: Path) -> Path:
            out = Path(work, f"{source.stem}.o")
            run([*words, *FLAGS, f"-I{RUNTIME}", "-c", str(source), "-o", str(out)], FAILURE)
            return out

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            objects = list(pool.map(compiled, sources()))
        return archived(objects, folder)


def archived(objects: Iterable[Path], folder: Path) -> Path:
    """Put objects into the library, and its headers beside it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in HEADERS:
            shutil.copyfile(RUNTIME / name, folder / name)
        library = folder / LIBRARY
        library.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}") from None
    archiver = shlex.split(os.environ.get("AR", "")) or ["ar"]
    run([*archiver, "rcsD", str(library), *map(str, objects)], FAILURE)
    return library
