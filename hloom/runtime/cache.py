"""Compiled programs on disk, so that the second start of a program compiles nothing.

An entry is a file named by its key, a hash of everything that the program was made from; it holds
the program and, in its labels, the parts of that key. A program may have further names: hashes of
other parts, found sooner, each a file that holds the key. Writing is to a file beside, then
renaming, so any number of processes share a cache and none sees half an entry. What cannot be read
is removed and compiled again: the cache heals. When the cache outgrows its bound, the entries go
whose last use is longest ago (their files' times say so). Nothing that goes wrong here is an
error for the caller: the program is compiled as if there were no cache.

Beside the programs stand the objects that they were linked from, each with the code of a kernel or
of a few small ones, so that a program that has the same kernels as another is compiled without
LLVM. Those used last are kept in memory, too.

Its code is run, so nobody else may write to it (docs/security.md): the folder has mode 0700, files
0600, and one that others own or can write to is not used, which is said once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from hloom.base.diagnostics import HloError, UsageError
from hloom.program.program import Program
from hloom.program.saved import labels_of, program_from_bytes, program_pieces
from hloom.runtime.cache_files import CacheFiles
from hloom.runtime.loaded_program import crc32
from hloom.runtime.object_cache import OBJECT_SUFFIX, ObjectCache
from hloom.runtime.private_folder import NotPrivate, open_private
from hloom.runtime.processor_identity import check_processor
from hloom.runtime.program_files import contents

LOG = logging.getLogger("hloom")
DEFAULT_LIMIT_BYTES = 2 << 30
SUFFIX = ".program"
NAME_SUFFIX = ".name"
_KEY_CHARACTERS = 64
_KEY = re.compile("[0-9a-f]{64}")
_OFF = frozenset(("0", "off", "false", "no"))
_LABELS_BYTES = 4096  # enough for the head, the rows and the labels of every entry


@dataclass(frozen=True)
class CacheInfo:
    """What a cache holds, and how often it helped since it was last cleared."""

    path: Path
    entries: int
    size_bytes: int
    limit_bytes: int
    hits: int
    misses: int
    objects: int = 0
    """Kernels' objects, which count to `size_bytes`, too."""


@dataclass(frozen=True)
class CacheAnswer:
    """Why a program is in the cache, or is not: `differs` names the parts of the key (with what
    the nearest entry has, and what was asked for) that keep that entry from being used."""

    is_hit: bool
    nearest: str | None
    """Name of the program in the nearest entry; None where the cache is empty."""
    differs: dict[str, tuple[str, str]]


def key_of(parts: Mapping[str, str]) -> str:
    """The name of an entry: a hash of all that it is made from."""
    digest = sha256()
    for name in sorted(parts):
        for text in (name, parts[name]):
            data = text.encode("utf-8", "surrogateescape")
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
    return digest.hexdigest()


class ProgramCache:
    """A folder of programs. Any number of threads and processes may use it at once."""

    def __init__(self, folder: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.folder = folder
        self.files = CacheFiles(folder, limit_bytes, (SUFFIX, OBJECT_SUFFIX))
        self.objects = ObjectCache(self.files)
        """Of the kernels in the programs."""

    # -- programs

    def get(self, parts: Mapping[str, str]) -> Program | None:
        """The program made from these parts, or None. An entry that is broken is removed."""
        return self._program(key_of(parts), True)

    def get_named(self, parts: Mapping[str, str]) -> Program | None:
        """The program that these parts are another name of, or None, which is no miss yet."""
        path = self.folder / (key_of(parts) + NAME_SUFFIX)
        if not path.exists() or not self.files.is_private():
            return None
        try:
            with os.fdopen(open_private(path, os.O_RDONLY)) as file:
                key = file.read(_KEY_CHARACTERS + 1)
        except (OSError, NotPrivate, UnicodeDecodeError):
            return None
        return self._program(key, False) if _KEY.fullmatch(key) else None

    def name(self, parts: Mapping[str, str], names: Mapping[str, str]) -> None:
        """Let the program made from `parts` be found by `names`, too."""
        self.files.write(self.folder / (key_of(names) + NAME_SUFFIX), [key_of(parts).encode()])

    def _program(self, key: str, is_asked_last: bool) -> Program | None:
        """The program of an entry; its absence counts as a miss where nobody looks further."""
        path = self.folder / (key + SUFFIX)
        try:
            data = contents(path) if self.files.is_private() else None
        except FileNotFoundError:
            data = None
            if is_asked_last:
                self.files.count("misses")
        except (OSError, NotPrivate) as error:
            data = None
            self.files.warn("read", error)
        if data is None:
            return None
        try:
            program = program_from_bytes(data, crc32)
            check_processor(program)
        except HloError as error:
            LOG.info("removing %s: %s", path, error.message)
            with contextlib.suppress(OSError):
                path.unlink()
            if is_asked_last:
                self.files.count("misses")
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # used last now
        self.files.count("hits")
        return program

    def put(self, parts: Mapping[str, str], program: Program) -> None:
        """Keep a program; trouble with the disk is reported once."""
        pieces = program_pieces(program, {**parts, "name": program.name}, crc32)
        size = sum([len(piece) for piece in pieces])
        if size > self.files.limit_bytes // 4:
            return
        if self.files.write(self._path(parts), pieces) and self.files.is_trim_due(size):
            self.trim()

    # -- the whole

    def info(self) -> CacheInfo:
        """Numbers about the cache."""
        files = list(self.files.all())
        hits, misses = (_size(self.folder / name) for name in ("hits", "misses"))
        size = sum([s.st_size for _, s in files])
        programs = sum([path.suffix == SUFFIX for path, _ in files])
        objects = len(files) - programs
        return CacheInfo(self.folder, programs, size, self.files.limit_bytes, hits, misses, objects)

    def why(self, parts: Mapping[str, str]) -> CacheAnswer:
        """Whether there is an entry of these parts; if not, how the nearest one differs."""
        if self._path(parts).exists():
            return CacheAnswer(True, self._labels(self._path(parts)).get("name"), {})
        best: CacheAnswer | None = None
        for path, _ in sorted(self.files.all(), key=lambda f: -f[1].st_mtime_ns):
            labels = self._labels(path)
            if not labels:
                continue
            differs = {n: (labels.get(n, ""), v) for n, v in parts.items() if labels.get(n) != v}
            if best is None or _distance(differs) < _distance(best.differs):
                best = CacheAnswer(False, labels.get("name", ""), differs)
        return best or CacheAnswer(False, None, {})

    def clear(self) -> int:
        """Remove everything; how many programs there were."""
        count = 0
        self.objects.forget()
        for path, _ in list(self.files.all()):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                count += path.suffix == SUFFIX
        self._remove_names()
        for name in ("hits", "misses"):
            (self.folder / name).unlink(missing_ok=True)
        return count

    def trim(self) -> None:
        """Remove what was used longest ago, if it is too much."""
        self.files.trim()
        self._remove_names()

    def _remove_names(self) -> None:
        """Names of programs that are not here."""
        digests = {path.name.removesuffix(SUFFIX) for path, _ in self.files.all()}
        for path in self.folder.glob("*" + NAME_SUFFIX):
            with contextlib.suppress(OSError):
                if path.read_text("ascii", "replace") not in digests:
                    path.unlink()

    # -- files

    def _path(self, parts: Mapping[str, str]) -> Path:
        return self.folder / (key_of(parts) + SUFFIX)

    def _labels(self, path: Path) -> dict[str, str]:
        try:
            with path.open("rb") as file:
                return labels_of(file.read(_LABELS_BYTES))
        except (OSError, HloError):
            return {}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _distance(differs: Mapping[str, object]) -> tuple[bool, int]:
    """How far an entry is from what was asked for: another program altogether is farthest."""
    return "program" in differs, len(differs)


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where programs are kept: `HLOOM_CACHE_DIR`, else the system's place for caches."""
    if folder := environment.get("HLOOM_CACHE_DIR"):
        return Path(folder)
    import platformdirs

    return Path(platformdirs.user_cache_dir("hloom", appauthor=False)) / "programs"


def program_cache(environment: Mapping[str, str] = os.environ) -> ProgramCache | None:
    """The cache of this process as the environment wants it; None where it is off.

    `HLOOM_CACHE=0` turns it off; `HLOOM_CACHE_BYTES` is its bound. There is none either for a user
    who has no home directory, as in many containers, unless the environment names a folder.
    """
    if environment.get("HLOOM_CACHE", "1").strip().lower() in _OFF:
        return None
    text = environment.get("HLOOM_CACHE_BYTES", str(DEFAULT_LIMIT_BYTES))
    if not text.isdecimal():
        raise UsageError(f"HLOOM_CACHE_BYTES is a number of bytes, not {text!r}", rule="cache")
    try:
        folder = cache_folder(environment)
    except RuntimeError:  # platformdirs knows no home
        return None
    return _opened(folder, int(text))


@cache
def _opened(folder: Path, limit_bytes: int) -> ProgramCache:
    return ProgramCache(folder, limit_bytes)
