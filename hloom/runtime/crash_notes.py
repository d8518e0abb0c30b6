"""What LLVM does not survive: said before the process ends, and compiled elsewhere the next time.

Programs are compiled in the caller's own process, so a crash of LLVM ends it, and nothing can be
saved then. But the native side (`native/crash_note.cc`) says which functions they were, and
leaves their text in the folder of reports, under a name made of it. Who is to compile the same
text again finds the file and lets a worker process do it, whose end costs nothing but time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from hloom.base.installed import installed_version
from hloom.runtime.fault_reports import report_folder
from hloom.runtime.library import library

PREFIX, SUFFIX = "llvm-crash-", ".ll"


class CrashNotes:
    """The notes of one folder, that of reports if none is given, as one compilation finds it."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder or report_folder()).absolute()
        self._has_some = self.folder.is_dir() and any(self.folder.glob(f"{PREFIX}*{SUFFIX}"))
        """Most folders have none, and need not be asked for each text."""

    def is_known(self, text: str) -> bool:
        """Whether a process ended of compiling this text, by this version of LLVM."""
        return self._has_some and self._path(text.encode()).exists()

    @contextmanager
    def noted(self, what: str, text: str) -> Iterator[None]:
        """If the process ends inside, say of which functions, and leave their text behind."""
        content = text.encode()
        path = self._path(content)
        message = (
            f"\nhloom: LLVM ended this process while it made machine code of {what}.\n"
            f"Run the program again: that code is then compiled in a process of its own, and what\n"
            f"LLVM cannot compile is compiled without optimisation. Please report it with\n{path}\n"
        ).encode()
        try:
            library().hl_crash_note(message, os.fsencode(path), content, len(content))
            yield
        finally:
            library().hl_crash_note_done()

    def _path(self, content: bytes) -> Path:
        version = installed_version("llvmlite").encode()
        digest = sha256(version + b"\0" + content).hexdigest()[:16]
        return self.folder / f"{PREFIX}{digest}{SUFFIX}"
