"""Compressed files: what compressors wrote is undone, by how the bytes begin.

People compress dumps, which are long. An extension is not asked: a file keeps its bytes under any.
A compressor's module is imported when it is needed: a Python that was compiled where bzip2 or xz
have no headers lacks it, and everything else works there.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from hloom.base.diagnostics import UsageError

EXTENSIONS = (".gz", ".xz", ".bz2", ".zst")
"""What may stand behind a file's own extension. The standard library can't read the last."""
_READERS = ((b"\x1f\x8b", "gzip"), (b"\xfd7zXZ\x00", "lzma"), (b"BZh", "bz2"))
_WRITERS = {".gz": "gzip", ".xz": "lzma", ".bz2": "bz2"}
"""Which module of the standard library undoes what begins so, or writes such a file."""
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
    for start, module in _READERS:
        if data.startswith(start):
            decompress = _function(module, "decompress", f"cannot read {name}")
            try:
                return decompress(data)
            except Exception as error:  # each module has exceptions of its own
                said = str(error) or type(error).__name__
                raise UsageError(f"cannot read {name}: {said}", rule="compressed") from None
    return data


def _function(module: str, name: str, problem: str) -> Callable[..., bytes]:
    """What a module of the standard library does, where this Python has it."""
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        raise UsageError(
            f"{problem}: this Python was compiled without {module}",
            hint="undo the compression first, or compress with gzip",
            rule="compressed",
        ) from error


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
    module = _WRITERS.get(path.suffix.lower())
    if module is None:
        raise UsageError(
            f"cannot write {path}: Python does not compress {path.suffix}",
            hint=f"give it one of {', '.join(_WRITERS)}",
            rule="compressed",
        )
    compress = _function(module, "compress", f"cannot write {path}")
    return compress(data, mtime=0) if module == "gzip" else compress(data)
