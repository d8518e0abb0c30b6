"""Compilers and linkers, for what takes one: shared libraries, and routines written in C.

For this system it is the system's own. For others `$CC_<triple>` names one, or a GNU compiler of
that name is there (`aarch64-linux-gnu-gcc`), or clang as the package `ziglang` ships it, which
links for every system.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from hloom.api import HloError, Machine, Processor

NATIVE = Path(__file__).parent / "native"
NAMES = ("hl_sort_keys", "hl_sort_compare", "hl_topk")
"""What the routines define, behind the name of the library."""
_ELF = ("-shared", "-nostartfiles", "-Wl,-z,noexecstack", "-Wl,-s")
_SHARED = {
    "linux": (*_ELF, "-Wl,--no-undefined"),
    "macos": ("-dynamiclib", "-Wl,-S"),
    "windows": ("-shared", "-nostdlib", "-Wl,-s"),
    "wasm": ("-nostdlib", "-Wl,--no-entry", "-Wl,--export=__heap_base", "-Wl,-s"),
}
"""How a system's shared libraries are linked."""
_ZIG_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "armv7": "arm", "armv7a": "arm"}
_ZIG_GLIBC = "2.28"
"""The C library of Linux that is linked against; newer ones have all of it."""


@dataclass(frozen=True)
class Toolchain:
    """What compiles and links for a processor."""

    processor: Processor
    words: tuple[str, ...]
    """That call it."""

    def routines_object(self, name: str, folder: Path, what_for: str) -> Path:
        """Compiles the routines for a library of this name; where the object is."""
        path = folder / f"{name}_routines.o"
        flags = ["-O2", "-fvisibility=hidden", "-ffreestanding", f"-DHLOOM_PREFIX={name}_"]
        if self.processor.system != "windows":
            flags.append("-fPIC")
        self._run([*flags, "-c", str(NATIVE / "order.c"), "-o", str(path)], what_for)
        return path

    def shared_library(self, objects: Sequence[Path], path: Path) -> None:
        """Links objects to a library that needs the C library alone; on Windows, nothing."""
        system, what_for = self.processor.system, f"linking {path.name}"
        words, files = list(_SHARED[system]), [str(o) for o in objects]
        if system == "linux":
            words.append(f"-Wl,-soname,{path.name}")
            files += ["-lm", "-Wl,--as-needed"]
        elif system == "macos":
            words.append(f"-Wl,-install_name,@rpath/{path.name}")
        if "-nostdlib" in words:
            flags = ["-O2", "-fno-builtin", "-ffreestanding"]
            if self.processor.architecture == "wasm32":
                flags.append("-msimd128")
            words += [*flags, str(NATIVE / "freestanding.c")]
        if system == "windows":
            files.append(str(NATIVE / "windows.c"))
        self._run([*words, *files, "-o", str(path)], what_for)

    def joined_object(self, objects: Sequence[Path], path: Path) -> None:
        """Links objects to one that can be linked again."""
        words = ["-r", "-nostdlib", *map(str, objects), "-o", str(path)]
        self._run(words, f"joining objects in {path.name}")

    def _run(self, words: Sequence[str], what_for: str) -> None:
        """Calls it; `HloError` with its words if it fails."""
        words = [*self.words, *words]
        try:
            done = subprocess.run(words, capture_output=True, text=True)
        except OSError as error:
            raise HloError(f"{words[0]} cannot be called: {error}", rule="c-compiler") from None
        if done.returncode != 0:
            raise HloError(
                f"the C compiler fails at {what_for}: {shlex.join(words)}\n{done.stderr.strip()}",
                rule="c-compiler",
            )


def toolchain(processor: Processor, what_for: str) -> Toolchain:
    """What compiles and links for a machine; `HloError` where there is nothing."""
    host = Machine.host()
    if (processor.architecture, processor.system) == (host.architecture, host.system):
        return Toolchain(processor, tuple(compiler(what_for)))
    variable = f"CC_{processor.triple.replace('-', '_').replace('.', '_')}"
    if words := shlex.split(os.environ.get(variable, "")):
        return Toolchain(processor, tuple(words))
    parts = processor.triple.split("-")
    gnu = "-".join([parts[0], *parts[-2:]]) + "-gcc"
    if processor.system == "linux" and shutil.which(gnu):
        return Toolchain(processor, (gnu,))
    if find_spec("ziglang") is not None:
        zig = (sys.executable, "-m", "ziglang", "cc", "-target", zig_target(processor))
        return Toolchain(processor, zig)
    raise HloError(
        f"a compiler for {processor.triple} is needed for {what_for}, and there is none",
        rule="c-compiler",
        hint=f"pip install 'hloom[cross]', or name one in {variable}; a .a or .o takes none"
        " where nothing is sorted",
    )


def zig_target(processor: Processor) -> str:
    """A machine as zig calls it: architecture, system, binary interface."""
    first = processor.architecture
    architecture = "thumb" if first.startswith("thumb") else _ZIG_ARCHITECTURES.get(first, first)
    last = processor.triple.split("-")[-1]
    if processor.system == "linux":
        known = ("gnu", "musl")
        abi = last if last.startswith(known) else "gnu"
        return f"{architecture}-linux-{abi}" + (f".{_ZIG_GLIBC}" if abi.startswith("gnu") else "")
    if processor.system == "windows":
        return f"{architecture}-windows-gnu"
    if processor.system == "macos":
        return f"{architecture}-macos"
    abi = f"-{last}" if last.startswith(("eabi", "gnueabi")) else ""
    return f"{architecture}-freestanding{abi}"


def compiler(what_for: str) -> list[str]:
    """The words that call the system's: `$CC`, or the first of cc, gcc, clang that there is."""
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
