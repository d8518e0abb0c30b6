"""Compiled programs on disk, so that the second start of a program compiles nothing.

An entry is a file named by its key, a hash of everything that the program was made from; it holds
the program and, in its labels, the parts of that key. A program may have further names: hashes of
other parts, found sooner, each a file that holds the key. Writing is to a file beside, then
renaming, so any number of processes share a cache and none sees half an entry. What cannot be read
is removed and compiled again: the cache heals. When the cache outgrows its bound, the entries go
whose last use is longest ago (their files' times say so). Nothing that goes wrong here is an
error for the caller: the program is compiled as if there were no cache.

Its code is run, so nobody else may write to it (docs/security.md): the folder has mode 0700, files
0600, and one that others own or can write to is not used, which is said once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from hloom.base.clock import wall
from hloom.base.diagnostics import HloError, UsageError
from hloom.program.container import Piece
from hloom.program.program import Program
from hloom.program.saved import labels_of, program_from_bytes, program_pieces
from hloom.runtime.loaded_program import crc32
from hloom.runtime.private_folder import NotPrivate, checked_private, made_private, open_private
from hloom.runtime.processor_identity import check_processor
from hloom.runtime.program_files import BESIDE, contents, replaced

LOG = logging.getLogger("hloom")
DEFAULT_LIMIT_BYTES = 2 << 30
SUFFIX = ".program"
NAME_SUFFIX = ".name"
_ABANDONED_S = 3600.0
_KEY_CHARACTERS = 64
_KEY = re.compile("[0-9a-f]{64}")
_OFF = frozenset(("0", "off", "false", "no"))
_LABELS_BYTES = 4096  # enough for the head, the rows and the labels of every entry
_TRIM_EVERY = 64  # entries written between two looks at the size of the whole


@dataclass(frozen=True)
class CacheInfo:
    """What a cache holds, and how often it helped since it was last cleared."""

    path: Path
    entries: int
    size_bytes: int
    limit_bytes: int
    hits: int
    misses: int


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
        self.folder, self.limit_bytes = folder, limit_bytes
        self._lock = threading.Lock()
        self._until_trim = 0
        self._has_warned = False
        self._known: tuple[int, ...] = ()
        """The folder that was found to be private."""

    # -- programs

    def get(self, parts: Mapping[str, str]) -> Program | None:
        """The program made from these parts, or None. An entry that is broken is removed."""
        return self._program(key_of(parts), True)

    def get_named(self, parts: Mapping[str, str]) -> Program | None:
        """The program that these parts are another name of, or None, which is no miss yet."""
        path = self.folder / (key_of(parts) + NAME_SUFFIX)
        if not path.exists() or not self._is_private():
            return None
        try:
            with os.fdopen(open_private(path, os.O_RDONLY)) as file:
                key = file.read(_KEY_CHARACTERS + 1)
        except (OSError, NotPrivate, UnicodeDecodeError):
            return None
        return self._program(key, False) if _KEY.fullmatch(key) else None

    def name(self, parts: Mapping[str, str], names: Mapping[str, str]) -> None:
        """Let the program made from `parts` be found by `names`, too."""
        self._write(self.folder / (key_of(names) + NAME_SUFFIX), [key_of(parts).encode()])

    def _program(self, key: str, is_asked_last: bool) -> Program | None:
        """The program of an entry; its absence counts as a miss where nobody looks further."""
        path = self.folder / (key + SUFFIX)
        try:
            data = contents(path) if self._is_private() else None
        except FileNotFoundError:
            data = None
            if is_asked_last:
                self._count("misses")
        except (OSError, NotPrivate) as error:
            data = None
            self._warn("read", error)
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
                self._count("misses")
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # used last now
        self._count("hits")
        return program

    def put(self, parts: Mapping[str, str], program: Program) -> None:
        """Keep a program; trouble with the disk is reported once."""
        pieces = program_pieces(program, {**parts, "name": program.name}, crc32)
        size = sum([len(piece) for piece in pieces])
        if size > self.limit_bytes // 4:
            return
        if not self._write(self._path(parts), pieces):
            return
        with self._lock:
            self._until_trim -= 1
            is_due = self._until_trim < 0 or size > self.limit_bytes // _TRIM_EVERY
            if is_due:
                self._until_trim = _TRIM_EVERY
        if is_due:
            self.trim()

    # -- the whole

    def info(self) -> CacheInfo:
        """Numbers about the cache."""
        files = list(self._files())
        hits, misses = (_size(self.folder / name) for name in ("hits", "misses"))
        size = sum([s.st_size for _, s in files])
        return CacheInfo(self.folder, len(files), size, self.limit_bytes, hits, misses)

    def why(self, parts: Mapping[str, str]) -> CacheAnswer:
        """Whether there is an entry of these parts; if not, how the nearest one differs."""
        if self._path(parts).exists():
            return CacheAnswer(True, self._labels(self._path(parts)).get("name"), {})
        best: CacheAnswer | None = None
        for path, _ in sorted(self._files(), key=lambda f: -f[1].st_mtime_ns):
            labels = self._labels(path)
            if not labels:
                continue
            differs = {n: (labels.get(n, ""), v) for n, v in parts.items() if labels.get(n) != v}
            if best is None or _distance(differs) < _distance(best.differs):
                best = CacheAnswer(False, labels.get("name", ""), differs)
        return best or CacheAnswer(False, None, {})

    def clear(self) -> int:
        """Remove everything; how many entries there were."""
        count = 0
        for path, _ in list(self._files()):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                count += 1
        self._remove_names()
        for name in ("hits", "misses"):
            (self.folder / name).unlink(missing_ok=True)
        return count

    def trim(self) -> None:
        """Remove what was used longest ago, until a tenth of the bound is free."""
        self._remove_remains()
        files = sorted(self._files(), key=lambda f: f[1].st_mtime_ns)
        size = sum([s.st_size for _, s in files])
        if size <= self.limit_bytes:
            return
        for path, status in files:
            if size <= self.limit_bytes * 9 // 10:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            size -= status.st_size
        self._remove_names()

    def _remove_names(self) -> None:
        """Names of programs that are not here."""
        kept = {path.name.removesuffix(SUFFIX) for path, _ in self._files()}
        for path in self.folder.glob("*" + NAME_SUFFIX):
            with contextlib.suppress(OSError):
                if path.read_text("ascii", "replace") not in kept:
                    path.unlink()

    def _remove_remains(self) -> None:
        """Files that a process was writing when it was killed."""
        with contextlib.suppress(OSError), os.scandir(self.folder) as found:
            for entry in found:
                if entry.name.startswith(BESIDE):
                    with contextlib.suppress(OSError):
                        if wall() - entry.stat().st_mtime > _ABANDONED_S:
                            os.unlink(entry.path)

    # -- files

    def _path(self, parts: Mapping[str, str]) -> Path:
        return self.folder / (key_of(parts) + SUFFIX)

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        try:
            with os.scandir(self.folder) as found:
                for entry in found:
                    if entry.name.endswith(SUFFIX):
                        with contextlib.suppress(FileNotFoundError):
                            yield Path(entry.path), entry.stat()
        except OSError:  # there is no such folder, or it is not ours to read
            return

    def _is_private(self) -> bool:
        """Whether nobody else can write to the folder; if somebody can, it is said once. A folder
        that is not there is nobody's."""
        try:
            known = _identity(self.folder)
            if known != self._known:
                checked_private(self.folder)
                self._known = _identity(self.folder)
        except FileNotFoundError:
            return True
        except (OSError, NotPrivate) as error:
            self._warn("use", error)
            return False
        return True

    def _write(self, path: Path, pieces: Iterable[Piece]) -> bool:
        """Whether the file is there now; trouble is reported once."""
        try:
            if not self.folder.exists():
                made_private(self.folder)
            if not self._is_private():
                return False
            replaced(path, pieces)
        except (OSError, NotPrivate) as error:
            self._warn("write", error)
            return False
        return True

    def _labels(self, path: Path) -> dict[str, str]:
        try:
            with path.open("rb") as file:
                return labels_of(file.read(_LABELS_BYTES))
        except (OSError, HloError):
            return {}

    def _count(self, what: str) -> None:
        """One more hit or miss: a byte more in a file, which needs no lock."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            with os.fdopen(open_private(self.folder / what, flags), "ab", buffering=0) as file:
                file.write(b"+")
        except (OSError, NotPrivate):
            return  # no folder yet, or one that is read only: the counts are not worth a word

    def _warn(self, doing: str, error: OSError | NotPrivate) -> None:
        with self._lock:
            has_warned, self._has_warned = self._has_warned, True
        if not has_warned:
            LOG.warning(
                "cannot %s the compile cache %s: %s (HLOOM_CACHE=0 turns it off, HLOOM_CACHE_DIR "
                "puts it elsewhere)",
                doing,
                self.folder,
                getattr(error, "strerror", None) or error,
            )


def _identity(folder: Path) -> tuple[int, ...]:
    status = folder.stat()
    return status.st_dev, status.st_ino, status.st_uid, status.st_mode


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
    if given := environment.get("HLOOM_CACHE_DIR"):
        return Path(given)
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
