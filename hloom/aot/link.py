"""The system's compiler, for what takes one: shared libraries, and routines written in C."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hloom.api import HloError

ROUTINES = Path(__file__).parent / "native" / "order.c"
NAMES = ("hl_sort_keys", "hl_sort_compare", "hl_topk")
"""What the routines define, behind the name of the library."""
SHARED = ("-shared", "-nostartfiles", "-Wl,-z,noexecstack", "-Wl,--no-undefined", "-Wl,-s")


def compiler(what_for: str) -> list[str]:
    """The words that call it: `$CC`, or the first of cc, gcc, clang that there is."""
    if words := shlex.split(os.environ.get("CC", "")):
        return words
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return [path]
    raise HloError(
        f"a C compiler is needed for {what_for}, and there is no cc, gcc or clang",
        rule="c-compiler",
        hint="install one, or name it in CC",
    )


def run(words: Sequence[str], what_for: str) -> None:
    """Calls it; `HloError` with its words if it fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except OSError as error:
        raise HloError(f"{words[0]} cannot be called: {error}", rule="c-compiler") from None
    if done.returncode != 0:
        raise HloError(
            f"the C compiler fails at {what_for}: {shlex.join(words)}\n{done.stderr.strip()}",
            rule="c-compiler",
        )


def routines_object(name: str, folder: Path, what_for: str) -> Path:
    """Compiles the routines for a library of this name; where the object is."""
    path = folder / f"{name}_routines.o"
    flags = ["-O2", "-fPIC", "-fvisibility=hidden", "-ffreestanding", f"-DHLOOM_PREFIX={name}_"]
    run([*compiler(what_for), *flags, "-c", str(ROUTINES), "-o", str(path)], what_for)
    return path


def shared_library(objects: Sequence[Path], path: Path) -> None:
    """Links objects to a library that needs the C library alone."""
    what_for = f"linking {path.name}"
    words = [*compiler(what_for), *SHARED, f"-Wl,-soname,{path.name}"]
    run([*words, *map(str, objects), "-lm", "-Wl,--as-needed", "-o", str(path)], what_for)


def joined_object(objects: Sequence[Path], path: Path) -> None:
    """Links objects to one that can be linked again."""
    what_for = f"joining objects in {path.name}"
    words = [*compiler(what_for), "-r", "-nostdlib"]
    run([*words, *map(str, objects), "-o", str(path)], what_for)
