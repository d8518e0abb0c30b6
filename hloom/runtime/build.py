"""Compiles hloom/runtime/native/*.cc into libhloom_runtime.so: for wheels, and for checkouts.

Why here: the hook of the wheel (hatch_build.py) and the first use in a source checkout must do the
same. Only the standard library is needed, as a build environment holds nothing else.

The trick: objects and library carry the time stamp of the newest source *seen before* compiling,
so that a file saved while the compiler runs is newer than the result, and is compiled next time.
A lock makes parallel builds wait for one another; the library appears by rename, complete.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from hloom.runtime.native_sources import (
    EXPORTS,
    LIBRARY,
    RULES,
    SOURCES,
    BuildError,
    is_stale,
    list_of_sources,
    newest,
    sources,
)

# Every routine that wants more than the baseline says so itself (target attributes). Exceptions
# are off: out of memory must come back as a status, and nothing may unwind through kernels.
# Products and sums are fused where g++ and clang++ alike can: it is g++'s default.
COMPILE_FLAGS = (
    "-std=c++20 -O3 -fPIC -pthread -fno-exceptions -fno-rtti -fvisibility=hidden -fno-math-errno"
    " -ffp-contract=fast -fno-semantic-interposition -Wall -Wextra -Wno-unused-parameter"
    " -Wno-psabi"
).split()
LINK_FLAGS = (
    "-shared -pthread -static-libstdc++ -static-libgcc -Wl,-z,defs -Wl,-z,noexecstack"
    " -Wl,-soname,libhloom_runtime.so"
).split()
LINK_LIBRARIES = "-ldl -lm".split()
BASELINE = {"x86_64": ["-march=x86-64"], "aarch64": ["-march=armv8-a"]}


def build(
    library: Path = LIBRARY,
    folder: Path = SOURCES,
    *,
    force: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Path:
    """Compiles what is stale and links the library; raises BuildError with the compiler's words.

    Safe to call from many processes at once: all but one wait, and then find it done. `tell` gets
    lines about what is going on, for people who wait.
    """
    work = library.parent / "build"
    work.mkdir(parents=True, exist_ok=True)
    with _lock(work / "lock", tell):
        if force or is_stale(library, folder):
            compiled, headers = sources(folder)
            stamps = {path.name: newest([path]) for path in [*compiled, *headers]}
            stamp = max(newest(RULES), *stamps.values())
            known = [] if force else [s for s in compiled if _compiled(_target(s, work), s, stamps)]
            progress = _Progress(len(compiled) - len(known), tell)

            def compile_one(source: Path) -> Path:
                target = _target(source, work)
                if source not in known:
                    _compile(source, target, max(stamps.values()))
                    progress.one_more()
                return target

            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as executor:
                objects = list(executor.map(compile_one, compiled))
            _link(objects, library, stamp)
            list_of_sources(library).write_text("\n".join(path.name for path in compiled))
            _remove_old_objects(work, objects)
    return library


def baseline(command: list[str]) -> list[str]:
    """The flag for processors as old as a package must run on.

    A cross compiler (`-target`, as `zig c++` takes it) has that of its target.
    """
    return [] if "-target" in command else BASELINE.get(platform.machine(), [])


def compiler() -> list[str]:
    """The command of the C++ compiler: $CXX, or c++, g++, clang++, whichever is there."""
    if words := os.environ.get("CXX"):
        return shlex.split(words)
    for name in ("c++", "g++", "clang++"):
        if path := shutil.which(name):
            return [path]
    raise BuildError(
        "hloom's native runtime must be compiled, and no C++ compiler was found",
        rule="native-build",
        hint="install g++ or clang++ (C++20), or name one in $CXX, or install a wheel of hloom",
    )


class _Progress:
    """Says that files are being compiled, and from time to time how far it is."""

    EVERY_S = 10.0

    def __init__(self, count: int, tell: Callable[[str], None]) -> None:
        self.count, self.done, self.tell = count, 0, tell
        self.lock, self.told = threading.Lock(), time.monotonic()
        if count:
            tell(f"compiling the native runtime, {count} of its files; the next use finds it done")

    def one_more(self) -> None:
        with self.lock:
            self.done += 1
            if self.done == self.count or time.monotonic() - self.told >= self.EVERY_S:
                self.told = time.monotonic()
                self.tell(f"{self.done} of {self.count} compiled")


def _command() -> list[str]:
    """What compiles a source; what $CXXFLAGS says comes last, and wins."""
    command = [*compiler(), *COMPILE_FLAGS]
    return [*command, *baseline(command), *shlex.split(os.environ.get("CXXFLAGS", ""))]


def _target(source: Path, work: Path) -> Path:
    """The object file of a source. The command is part of its name: other flags, another object."""
    key = zlib.crc32("\0".join(_command()).encode())
    return work / f"{source.stem}-{key:08x}.o"


def _compiled(target: Path, source: Path, stamps: dict[str, int]) -> bool:
    """Whether the object is there, and newer than its source and what that includes."""
    included = target.with_suffix(".d")
    if not target.exists() or not included.exists():
        return False
    names = {Path(word).name for word in included.read_text().split()}
    return target.stat().st_mtime_ns >= max(stamps.get(n, 0) for n in {*names, source.name})


def _compile(source: Path, target: Path, stamp: int) -> None:
    # What it includes is known afterwards; no header that counts is newer than the newest now.
    included = target.with_suffix(".d")
    _produce([*_command(), "-MMD", "-MF", str(included), "-c", str(source)], target, stamp)


def _link(objects: list[Path], library: Path, stamp: int) -> None:
    """Links the library beside its place, then renames it; $LDFLAGS is honoured."""
    names = [str(path) for path in objects]
    flags = [*LINK_FLAGS, f"-Wl,--version-script={EXPORTS}"]
    last = [*shlex.split(os.environ.get("LDFLAGS", "")), *LINK_LIBRARIES]
    _produce([*compiler(), *flags, *names], library, stamp, last)


def _produce(command: list[str], target: Path, stamp: int, last: Sequence[str] = ()) -> None:
    """Runs a compiler that writes `target`, which then appears at once and with `stamp`."""
    handle, name = tempfile.mkstemp(prefix=target.name, suffix=".new", dir=target.parent)
    os.close(handle)
    full = [*command, *last, "-o", name]
    try:
        try:
            done = subprocess.run(full, capture_output=True, text=True, errors="replace")
        except OSError as error:
            raise BuildError(
                f"the C++ compiler could not be run: {error}\n  {shlex.join(full)}",
                rule="native-build",
                hint="install g++ or clang++ (C++20), or name one in $CXX",
            ) from None
        if done.returncode:
            raise BuildError(
                f"hloom's native runtime does not compile: {shlex.join(full)}\n"
                f"{(done.stdout + done.stderr).strip()}",
                rule="native-build",
                hint="a compiler with C++20 is needed, g++ 11 or clang++ 14 at least; "
                f"HLOOM_RUNTIME_LIBRARY={LIBRARY} takes the last library that was built",
            )
        os.chmod(name, 0o755)
        os.utime(name, ns=(stamp, stamp))
        os.replace(name, target)
    finally:
        if os.path.exists(name):
            os.unlink(name)


def _remove_old_objects(work: Path, keep: list[Path]) -> None:
    """Removes objects of files that are gone, and of other flags."""
    stems = {path.stem for path in keep}
    for path in [*work.glob("*.o"), *work.glob("*.d")]:
        if path.stem not in stems:
            path.unlink(missing_ok=True)


@contextmanager
def _lock(path: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Holds an exclusive lock on a file; the kernel releases it if the process dies."""
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("another process is compiling the native runtime: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def tell_on_stderr(line: str) -> None:
    """What is told to whoever uses a checkout for the first time."""
    print(f"hloom: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    print(build(tell=tell_on_stderr))
