"""Files and bytes of any language, each read and written by the room that knows it.

Imports are where they are needed: most programs are of one form only.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from hloom.base.diagnostics import HloError, ParseError, SourceLocation, UsageError
from hloom.frontends.stablehlo.recognise import (
    FORMATS,
    MAGIC,
    is_file_of_mlir,
    is_mlir,
    is_text_of_mlir,
)
from hloom.ir.proto.compressed import contents, uncompressed

if TYPE_CHECKING:
    from hloom.ir.module import Module
    from hloom.ir.proto.files import Loaded
    from hloom.ir.proto.snapshot import Snapshot

_STARTS_LIKE_A_MESSAGE = re.compile(r"(?:\s*#.*\n)*\s*[a-z_]+\s*[:{]")


def load_file(
    path: str | Path,
    *,
    replica_count: int | None = None,
    num_partitions: int | None = None,
    shapes: str = "",
    data: bytes | None = None,
) -> Loaded:
    """All that is in a file: the module, and of a snapshot the arguments and the result.

    The counts replace those of the module where given. `shapes`, such as `f32[8,3],s32[]`, are
    those of the arguments of StableHLO that leaves sizes open. `data` is what the file holds, where
    it has been read already. Raises `HloError` with a place.
    """
    data = contents(Path(path), data) if data or Path(path).is_file() else None
    of_mlir = is_file_of_mlir(path) or (data is not None and is_mlir(data))  # whatever it is called
    if shapes and not of_mlir:
        raise UsageError(
            f"{path}: shapes are given for StableHLO, which may leave sizes open", rule="dynamic"
        )
    if of_mlir:
        from hloom.frontends.stablehlo import files

        data = contents(Path(path)) if data is None else data
        loaded = files.load_bytes(data, str(path), files.shapes_of_text(shapes))
        loaded.module.replica_count = replica_count or loaded.module.replica_count
        loaded.module.num_partitions = num_partitions or loaded.module.num_partitions
        return loaded
    from hloom.ir.proto.files import load

    return load(path, replica_count=replica_count, num_partitions=num_partitions, data=data)


def load_bytes(data: bytes, file: str | None = None) -> Loaded:
    """All that is in the bytes of a file without a name, such as standard input."""
    from hloom.ir.proto.foreign import foreign

    data = uncompressed(data, file or "what was given")
    try:
        return _loaded(data, file)
    except HloError as error:
        # As of files: only what is no module is asked what else it is.
        raise foreign(data, file or "") or error from error


def _loaded(data: bytes, file: str | None) -> Loaded:
    from hloom.ir.proto.files import load_text
    from hloom.ir.proto.kinds import load_binary, load_text_proto

    if data.startswith(MAGIC):
        return load_stablehlo(data, file)
    if b"\0" in data[:4096]:
        return load_binary(data)
    try:
        text = data.decode("utf-8-sig")  # some editors begin with a mark
    except UnicodeDecodeError:
        return load_binary(data)
    if not text.strip():
        raise ParseError(
            "nothing was given: expected HLO text or a proto", location=SourceLocation(file, 1, 1)
        )
    if is_text_of_mlir(text):
        return load_stablehlo(text.encode(), file)
    if _STARTS_LIKE_A_MESSAGE.match(text):
        return load_text_proto(text, file)
    return load_text(text, file)


def load_stablehlo(data: bytes, file: str | None = None) -> Loaded:
    """What is in StableHLO, text or bytecode."""
    from hloom.frontends.stablehlo.files import load_bytes

    return load_bytes(data, file)


def save(
    module: Module,
    path: str | Path,
    format: str | None = None,
    *,
    snapshot: Snapshot | None = None,
) -> None:
    """Write a module (or a snapshot of it) to a file, which appears whole or not at all.

    The extension says which form; `format` is one of `FORMATS`. Raises `HloError` where it cannot
    be written.
    """
    if is_file_of_mlir(path):
        from hloom.frontends.stablehlo import files

        files.save(module, path, format)
    else:
        from hloom.ir.proto.files import save

        save(module, path, format, snapshot=snapshot)


def file_bytes(
    module: Module, format: str, form: str = "binary", *, snapshot: Snapshot | None = None
) -> bytes:
    """What a file of this format holds; `form` is `binary` or `text-proto` for a message."""
    if format in FORMATS:
        from hloom.frontends.stablehlo import files

        return files.file_bytes(module, format)
    from hloom.ir.proto.files import file_bytes

    return file_bytes(module, format, form, snapshot=snapshot)
