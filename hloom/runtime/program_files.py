"""Files of compiled programs: written whole or not at all, mapped where they are large.

What is in one is run, so one that others could have written is not opened (docs/security.md).
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

from hloom.base.diagnostics import HloError, SourceLocation, UsageError
from hloom.base.whole_files import replaceable
from hloom.program.container import Piece
from hloom.program.program import Program
from hloom.program.saved import program_from_bytes, program_pieces
from hloom.program.saved_form import MAGIC
from hloom.runtime.loaded_program import crc32
from hloom.runtime.private_folder import FILE_MODE, NotPrivate, open_private

BESIDE = "new-"
"""How names begin of files that are being written."""
READABLE = 0o644
_MAPPED_BYTES = 256 << 10  # from here on a file is mapped; a smaller one is read sooner


def replaced(path: Path, pieces: Iterable[Piece], mode: int = FILE_MODE) -> None:
    """Put a file there, whatever stood there, for its owner alone unless a mode says who may read
    it (and the umask does not mind); on an error what was there stays. Raises OSError."""
    beside = path.parent / f"{BESIDE}{secrets.token_hex(12)}"
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            for piece in pieces:
                file.write(piece)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def written(path: Path, pieces: Iterable[Piece], mode: int) -> None:
    """What somebody asked to have there: devices and pipes are written to, links are followed.
    Folders of hloom's own keep to `replaced`: another may have put a link there. Raises OSError."""
    place = replaceable(path)
    if place is not None:
        replaced(place, pieces, mode)
        return
    with open(path, "wb") as file:
        file.writelines(pieces)


def contents(path: Path) -> Piece:
    """What is in a file; of a large one only what is looked at is read.

    Nobody writes to one: a file that is removed or replaced stays what it was for who has it.
    Raises `NotPrivate` and OSError.
    """
    with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
        if os.fstat(file.fileno()).st_size < _MAPPED_BYTES:
            return file.read()
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def is_loadable(program: Program) -> bool:
    """Whether a loader of saved programs exists for the machine that a program is for."""
    p = program.processor
    if p is None:
        return True
    return p.system == "linux" and p.architecture in ("x86_64", "amd64", "aarch64", "arm64")


def is_program_file(path: Path) -> bool:
    """Whether a file begins as a saved program does; one that cannot be read does not."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def write_program(path: Path, program: Program, labels: Mapping[str, str]) -> None:
    """Write a program to a file that all may read; `UsageError` where that cannot be."""
    try:
        written(path, program_pieces(program, labels, crc32), READABLE)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None


def read_program(path: Path) -> Program:
    """The program in a file. `UsageError` where it cannot be opened, `HloError` with the rule
    saved-program where it is none, is damaged, or others could have written it."""
    real = Path(os.path.realpath(path))  # a link may be followed, for whoever named it chose it
    try:
        data = contents(real)
    except NotPrivate as error:
        raise HloError(
            f"{error}: a saved program is machine code, which would run as this user",
            rule="saved-program",
            hint="if you trust it, copy it to a file of your own",
        ) from None
    except OSError as error:
        hint = "hloom compile writes one" if error.errno == errno.ENOENT else None
        raise UsageError(f"cannot read {path}: {error.strerror or error}", hint=hint) from None
    try:
        return program_from_bytes(data, crc32)
    except HloError as error:
        error.location = SourceLocation(str(path))
        raise
