"""Compressed files: what compressors wrote is undone, by how the bytes begin.

People compress dumps, which are long. An extension is not asked: a file keeps its bytes under any.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from pathlib import Path

from hloom.base.diagnostics import UsageError

EXTENSIONS = (".gz", ".xz", ".bz2", ".zst")
"""What may stand behind a file's own extension. The standard library can't read the last."""
_READERS = (
    (b"\x1f\x8b", gzip.decompress),
    (b"\xfd7zXZ\x00", lzma.decompress),
    (b"BZh", bz2.decompress),
)
_WRITERS = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}
_ZSTANDARD = b"\x28\xb5\x2f\xfd"


def is_compressed(path: Path) -> bool:
    """Whether the extension says so."""
    return path.suffix.lower() in EXTENSIONS


def without_compression(path: Path) -> Path:
    """The name of what is compressed in a file."""
    return path.with_suffix("") if is_compressed(path) else path


def uncompressed(data: bytes, name: str) -> bytes:
    """What is compressed in `data`, or itself. `UsageError`, with the name, for what is cut off or
    cannot be undone here."""
    if data.startswith(_ZSTANDARD):
        raise UsageError(
            f"cannot read {name}: compressed by zstd, which Python does not read",
            hint="undo it first: zstd -d",
            rule="compressed",
        )
    for start, reader in _READERS:
        if data.startswith(start):
            try:
                return reader(data)
            except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
                raise UsageError(f"cannot read {name}: {error}", rule="compressed") from None
    return data


def contents(path: Path, data: bytes | None = None) -> bytes:
    """What a file holds, uncompressed; `data` is what was read from it already. `UsageError` where
    it cannot be read."""
    if data is None:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    plain = uncompressed(data, str(path))
    if plain is data and is_compressed(path):
        raise UsageError(
            f"cannot read {path}: not compressed, as {path.suffix} says", rule="compressed"
        )
    return plain


def compressed(data: bytes, path: Path) -> bytes:
    """`data` as a file of this name holds it; `UsageError` for a compressor that is not there."""
    if not is_compressed(path):
        return data
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise UsageError(
            f"cannot write {path}: Python does not compress {path.suffix}",
            hint=f"give it one of {', '.join(_WRITERS)}",
            rule="compressed",
        )
    return writer(data)
