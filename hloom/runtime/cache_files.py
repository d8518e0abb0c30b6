"""The folder of a cache: files written whole, by nobody else, and no more of them than a bound.

Any number of processes share it: writing is to a file beside, then renaming. Nothing that goes
wrong is an error for the caller. What is in the files is run, so the folder has mode 0700, files
0600, and one that others own or can write to is not used, which is said once (docs/security.md).
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from hloom.base.clock import wall
from hloom.program.container import Piece
from hloom.runtime.private_folder import NotPrivate, checked_private, made_private, open_private
from hloom.runtime.program_files import BESIDE, replaced

LOG = logging.getLogger("hloom")
_ABANDONED_S = 3600.0
_TRIM_EVERY = 64  # files written between two looks at the size of the whole
_MOST_REMOVED = 1000  # at once: a compile waits for it


class CacheFiles:
    """The files of one folder that have these ends of names, `limit_bytes` of them at most."""

    def __init__(self, folder: Path, limit_bytes: int, suffixes: tuple[str, ...]) -> None:
        self.folder, self.limit_bytes, self.suffixes = folder, limit_bytes, suffixes
        self._lock = threading.Lock()
        self._until_trim = 0
        self._has_warned = False
        self._known: tuple[int, ...] = ()
        """The folder that was found to be private."""

    def all(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Each file, and what the system knows of it."""
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    if entry.name.endswith(self.suffixes):
                        with contextlib.suppress(FileNotFoundError):
                            yield Path(entry.path), entry.stat()
        except OSError:  # there is no such folder, or it is not ours to read
            return

    def is_private(self) -> bool:
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
            self.warn("use", error)
            return False
        return True

    def write(self, path: Path, pieces: Iterable[Piece]) -> bool:
        """Whether the file is there now; trouble is reported once."""
        try:
            if not self.folder.exists():
                made_private(self.folder)
            if not self.is_private():
                return False
            replaced(path, pieces)
        except (OSError, NotPrivate) as error:
            self.warn("write", error)
            return False
        return True

    def count(self, what: str) -> None:
        """One more hit or miss: a byte more in a file, which needs no lock."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            with os.fdopen(open_private(self.folder / what, flags), "ab", buffering=0) as file:
                file.write(b"+")
        except (OSError, NotPrivate):
            return  # no folder yet, or one that is read only: the counts are not worth a word

    def is_trim_due(self, size: int) -> bool:
        """Whether to look at the size of the whole, behind a new file of so many bytes: after
        every so many files, and after a large one."""
        with self._lock:
            self._until_trim -= 1
            is_due = self._until_trim < 0 or size > self.limit_bytes // _TRIM_EVERY
            if is_due:
                self._until_trim = _TRIM_EVERY
        return is_due

    def trim(self) -> None:
        """Remove what was used longest ago, until a tenth of the bound is free.

        One large program takes the place of tens of thousands of small files: what is too much of
        them goes behind the files that are written next, and till then the bound is passed by
        less than the size of that program.
        """
        self._remove_remains()
        files = sorted(self.all(), key=lambda f: f[1].st_mtime_ns)
        size = sum([s.st_size for _, s in files])
        if size <= self.limit_bytes:
            return
        for path, status in files[:_MOST_REMOVED]:
            if size <= self.limit_bytes * 9 // 10:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            size -= status.st_size
        if size > self.limit_bytes:
            with self._lock:
                self._until_trim = 0

    def _remove_remains(self) -> None:
        """Files that a process was writing when it was killed."""
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.startswith(BESIDE):
                    with contextlib.suppress(OSError):
                        if wall() - entry.stat().st_mtime > _ABANDONED_S:
                            os.unlink(entry.path)

    def warn(self, doing: str, error: OSError | NotPrivate) -> None:
        """Say, once, what is wrong with the folder."""
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
