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
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from hloom.api import HloError, Machine, Processor

NATIVE = Path(__file__).parent / "native"
RUNTIME = Path(__file__).parents[1] / "runtime" / "native"
ORDERS = ("hl_sort_keys", "hl_sort_compare", "hl_topk")
MATRICES = ("hl_cholesky", "hl_triangular_solve", "hl_library_call")
"""What the routines define, behind the name of the library."""
TRANSFORMS = ("hl_fft",)
_ROUTINE_FLAGS = (
    *("-x", "c++", "-std=c++20", "-O3", "-fno-exceptions", "-fno-rtti", "-fno-math-errno"),
    *("-ffp-contract=fast", "-fno-semantic-interposition"),
    *("-fno-threadsafe-statics", "-fvisibility=hidden", f"-I{RUNTIME}"),
)
"""As the runtime itself is compiled, so that results are the same."""
_ELF = ("-shared", "-nostartfiles", "-Wl,-z,noexecstack", "-Wl,-s")
_SHARED = {
    "linux": (*_ELF, "-Wl,--no-undefined"),
    "macos": ("-dynamiclib", "-Wl,-S"),
    "windows": ("-shared", "-nostdlib", "-Wl,-s"),
    "wasm": ("-nostdlib", "-Wl,--no-entry", "-Wl,--export=__heap_base", "-Wl,-s"),
}
"""How a system's shared libraries are linked."""
_ZIG_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "armv7": "arm", "armv7a": "arm"}
_ZIG_GLIBC = {"loongarch64": "2.36"}
_OLDEST_GLIBC = "2.28"
"""The C library of Linux that is linked against, where an architecture has it; newer ones have all
of it."""


@dataclass(frozen=True)
class Toolchain:
    """What compiles and links for a processor."""

    processor: Processor
    words: tuple[str, ...]
    """That call it."""

    @property
    def is_host(self) -> bool:
        """Whether it is that of this system, which has a C++ library."""
        host = Machine.host()
        return (self.processor.architecture, self.processor.system) == (
            host.architecture,
            host.system,
        )

    def orders_object(self, name: str, folder: Path, what_for: str) -> Path:
        """Compiles the routines that sort for a library of this name; where the object is."""
        flags = ["-O2", "-fvisibility=hidden", "-ffreestanding"]
        return self._object(f"{name}_orders", name, folder, "order.c", flags, what_for)

    def matrices_object(
        self, name: str, folder: Path, calls: tuple[list[str], list[int]], what_for: str
    ) -> Path:
        """Compiles the linear algebra of a library of this name: these custom calls, and HLO's own
        operations for these types; where the object is."""
        flags = self._routine_flags(name)
        if self.processor.system == "windows":
            flags.append("-DHLOOM_ONE_INSTRUCTION_SET")
            if _vector_bytes(self.processor) > 16:
                flags += ["-mavx2", "-mfma"]
        flags.append(f"-DHLOOM_CALLS={''.join([_table_row(t) for t in calls[0]])}")
        types = " ".join([f"of({n}, {_TYPES[n]})" for n in calls[1]])
        flags.append(f"-DHLOOM_HLO_TYPES(of)={types}")
        return self._object(f"{name}_matrices", name, folder, "dense.cc", flags, what_for)

    def transforms_object(self, name: str, folder: Path, what_for: str) -> Path:
        """Compiles the Fourier transforms of a library of this name; where the object is."""
        flags = self._routine_flags(name)
        flags.append(f"-DHLOOM_FFT_BYTES={_vector_bytes(self.processor)}")
        return self._object(f"{name}_transforms", name, folder, "transforms.cc", flags, what_for)

    def _routine_flags(self, name: str) -> list[str]:
        """For the runtime's sources; a system without a C++ library has the few things they use."""
        flags = [*_ROUTINE_FLAGS, f"-DHLOOM_NAMESPACE={name}_hloom"]
        if not self.is_host:
            flags += ["-nostdinc++", "-fno-builtin-strlen", f"-I{NATIVE / 'bare'}"]
        if self.processor.architecture == "wasm32":
            flags.append("-msimd128")
        return flags

    def weights_object(
        self, name: str, folder: Path, file: tuple[int, int, int], maps: bool
    ) -> Path:
        """Compiles what maps the weights of a library of this name: bytes of the file, where the
        constants begin, its sum; `maps`: whether the system has files."""
        size, begin, total = file
        flags = ["-O3", "-fvisibility=hidden", f"-DHLOOM_SET={name}_set_weights"]
        flags += [f"-DHLOOM_BYTES={size}u", f"-DHLOOM_BEGIN={begin}", f"-DHLOOM_SUM={total}u"]
        flags.append("-DHLOOM_MAPS" if maps else "-ffreestanding")
        what_for = "mapping weights"
        return self._object(f"{name}_weights", name, folder, "weights.c", flags, what_for)

    def tensors_object(self, name: str, folder: Path, table: str, maps: bool) -> Path:
        """Compiles what finds the weights of a library by their names, which the table has."""
        path = folder / f"{name}_tensors.h"
        path.write_text(table, encoding="ascii")
        flags = ["-O2", "-fvisibility=hidden", "-include", str(path)]
        flags += [f"-DHLOOM_SET={name}_set_weights", f"-DHLOOM_PROBLEM={name}_weights_problem"]
        flags.append("-DHLOOM_MAPS" if maps else "-ffreestanding")
        return self._object(f"{name}_weights", name, folder, "tensors.c", flags, "weights by name")

    def pool_object(self, name: str, folder: Path, threads: int) -> Path:
        """Compiles the threads of a library of this name."""
        flags = ["-O2", "-fvisibility=hidden", "-pthread", f"-DHLOOM_THREADS={threads}"]
        return self._object(f"{name}_pool", name, folder, "pool.c", flags, "threads")

    def _object(
        self, stem: str, name: str, folder: Path, file: str, flags: Sequence[str], what_for: str
    ) -> Path:
        path = folder / f"{stem}.o"
        words = [*flags, f"-DHLOOM_PREFIX={name}_"]
        if self.processor.system != "windows":
            words.append("-fPIC")
        self._run([*words, "-c", str(NATIVE / file), "-o", str(path)], what_for)
        return path

    def shared_library(self, objects: Sequence[Path], path: Path, threads: bool = False) -> None:
        """Links objects to a library that needs the C library alone, and that of threads where it
        has some; on Windows, nothing."""
        system, what_for = self.processor.system, f"linking {path.name}"
        words, files = list(_SHARED[system]), [str(o) for o in objects]
        if threads and system == "linux":  # what forks are told of belongs to a library that begins
            words.remove("-nostartfiles")
        if system == "linux":
            words.append(f"-Wl,-soname,{path.name}")
            files += ["-lm", "-Wl,--as-needed", *(["-lpthread"] if threads else [])]
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
        """Calls it."""
        called = self.words
        if "c++" in words and "ziglang" in called:  # which knows the headers of C++ by this name
            called = tuple(["c++" if w == "cc" else w for w in called])
        run([*called, *words], f"the C compiler fails at {what_for}")


def run(words: Sequence[str], failure: str) -> None:
    """Call a compiler or an archiver; `HloError`, which begins so, with its words if it fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except OSError as error:
        raise HloError(f"{words[0]} cannot be called: {error}", rule="c-compiler") from None
    if done.returncode != 0:
        problem = f"{failure}: {shlex.join(words)}\n{done.stderr.strip()}"
        raise HloError(problem, rule="c-compiler", hint=_NO_CPP if "cc1plus" in problem else None)


_NO_CPP = (
    "this gcc is there without its C++ part: install it (g++ on Debian, g++-<machine> for"
    " another machine), or pip install 'hloom[cross]' where the code is for another machine"
)


def _vector_bytes(processor: Processor) -> int:
    """Of the vectors that fft_tile.cc has for a processor."""
    features = set(processor.features)
    if features >= {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma"}:
        return 64
    return 32 if features >= {"avx2", "fma"} else 16


_LETTERS = {"s": "float", "d": "double", "c": "Complex<float>", "z": "Complex<double>"}
_TYPES = {11: "float", 12: "double", 15: "Complex<float>", 18: "Complex<double>"}
"""By the number in the protobuf enum."""
_HANDLERS = {"ungqr": "orgqr", "unmqr": "ormqr", "syevd": "heevd", "sytrd": "hetrd"}
"""Of routines whose names differ with the type."""


def _table_row(target: str) -> str:
    """The entry of a custom call, `lapack_sgetrf_ffi`, in the table of linalg_calls.cc."""
    word = target.removeprefix("lapack_").removesuffix("_ffi")
    kind, routine = _LETTERS[word[0]], word[1:]
    if routine in ("gesdd", "gesvd"):
        handler = f"gesdd<{kind}, {'true' if routine == 'gesvd' else 'false'}>"
    else:
        handler = f"{_HANDLERS.get(routine, routine)}<{kind}>"
    return f'{{"{target}", {handler}}},'


def toolchain(processor: Processor, what_for: str) -> Toolchain:
    """What compiles and links for a machine; `HloError` where there is nothing."""
    if (own := Toolchain(processor, ())).is_host:
        return replace(own, words=tuple(compiler(what_for)))
    variable = f"CC_{processor.triple.replace('-', '_').replace('.', '_')}"
    if words := shlex.split(os.environ.get(variable, "")):
        return Toolchain(processor, tuple(words))
    parts = processor.triple.split("-")
    gnu = "-".join([parts[0], *parts[-2:]]) + "-gcc"
    has_zig = find_spec("ziglang") is not None
    has_gnu = processor.system == "linux" and shutil.which(gnu) is not None
    if has_gnu and (_takes_cpp(gnu) or not has_zig):
        return Toolchain(processor, (gnu,))
    if has_zig:
        zig = (sys.executable, "-m", "ziglang", "cc", "-target", zig_target(processor))
        return Toolchain(processor, zig)
    raise HloError(
        f"a compiler for {processor.triple} is needed for {what_for}, and there is none",
        rule="c-compiler",
        hint=f"pip install 'hloom[cross]', or name one in {variable}; a .a or .o takes none"
        " where nothing is sorted",
    )


@cache
def _takes_cpp(gcc: str) -> bool:
    """Whether a gcc has the compiler proper of C++, which distributions pack apart (`g++-*`)."""
    words = [gcc, "-print-prog-name=cc1plus"]
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except OSError:
        return False
    return done.returncode == 0 and Path(done.stdout.strip()).is_absolute()  # else the bare name


def zig_target(processor: Processor) -> str:
    """A machine as zig calls it: architecture, system, binary interface."""
    first = processor.architecture
    architecture = "thumb" if first.startswith("thumb") else _ZIG_ARCHITECTURES.get(first, first)
    last = processor.triple.split("-")[-1]
    if processor.system == "linux":
        known, glibc = ("gnu", "musl"), _ZIG_GLIBC.get(architecture, _OLDEST_GLIBC)
        abi = last if last.startswith(known) else "gnu"
        return f"{architecture}-linux-{abi}" + (f".{glibc}" if abi.startswith("gnu") else "")
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
