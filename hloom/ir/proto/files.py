"""Files of HLO: which form one is in, reading it, and writing one safely.

The extension says whether a file is text, a message or the text of a message; which message it
is follows from its structure, since XLA gives `.pb` to four of them. A file is written beside
its place and then renamed, so that no reader sees half of it. What knows messages is imported when
there is one: most files are text.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hloom.base.diagnostics import HloError, ProtoError, UsageError
from hloom.base.whole_files import replaceable
from hloom.ir.module import Module
from hloom.ir.proto.compressed import compressed, contents, uncompressed, without_compression
from hloom.ir.text.options import PrintOptions
from hloom.types.literal import Literal

if TYPE_CHECKING:
    from hloom.ir.proto.snapshot import Snapshot

TEXT, BINARY, TEXT_PROTO = "text", "binary", "text-proto"
EXTENSIONS = {
    ".hlo": TEXT,
    ".txt": TEXT,
    ".pb": BINARY,
    ".pbtxt": TEXT_PROTO,
    ".textproto": TEXT_PROTO,
}
"""What a file with this extension holds; `.gz` and its like behind it are undone first."""
MLIR = (".mlir", ".stablehlo", ".mhlo", ".mlirbc")
"""Extensions of files that the front end for StableHLO reads and writes, not this file."""
FORMATS = ("text", "proto", "hlo-proto", "snapshot", "unoptimized-snapshot", "custom-snapshot")
BUFFERS = "buffer_assignment"
"""Key in `module.carried` of the serialised `BufferAssignmentProto` of an `HloProto`."""

_LOG = re.compile(
    r"^(?:[IWEF]\d{4} [\d:.]+\s+\d+\s+|\d{4}-\d\d-\d\d [\d:.]+: [IWEF] )[^\s:\]]+:\d+\] ?", re.M
)
_LOOKS_LIKE_TEXT = re.compile(rb"\s*(?:HloModule|ENTRY|//|/\*|%|[IWEF]\d{4} )")


@dataclass(frozen=True)
class Loaded:
    """What was in a file."""

    module: Module
    format: str
    """One of `FORMATS`."""
    partitions: tuple[tuple[Literal, ...], ...] = field(default=())
    """The arguments of each partition, where the file is a snapshot."""
    result: Literal | None = None
    execution_platform: str = ""

    @property
    def arguments(self) -> tuple[Literal, ...]:
        """The arguments of the first partition; `()` where the file has none."""
        return self.partitions[0] if self.partitions else ()


def load(
    path: str | os.PathLike[str],
    *,
    replica_count: int | None = None,
    num_partitions: int | None = None,
    data: bytes | None = None,
) -> Loaded:
    """The module in a file, in whatever form, with the counts replaced where given.

    `data` is what the file holds, where it has been read already.
    `UsageError` for a file that cannot be opened, or has an unknown extension and holds nothing
    that is known; `ParseError` and `ProtoError` for one whose content is broken.
    """
    path = Path(path)
    data = _contents(path) if data is None else uncompressed(data, str(path))
    try:
        loaded = _loaded(data, _form(path, data), str(path))
    except HloError as error:
        from hloom.ir.proto.foreign import foreign

        # Only what is no module is asked what else it is: some modules begin like other files.
        raise foreign(data, path.as_posix()) or error from error
    for name, value in (("replica_count", replica_count), ("num_partitions", num_partitions)):
        if value is not None:
            if value < 1:
                raise UsageError(f"{name} must be at least 1, not {value}")
            setattr(loaded.module, name, value)
    return loaded


def _contents(path: Path) -> bytes:
    """What a file holds, uncompressed; `UsageError` where it cannot be read."""
    if path.is_dir():
        from hloom.ir.proto.foreign import foreign_folder

        raise foreign_folder(path)
    if not path.exists():
        form_of(path)  # a wrong name is said before a missing file
    return contents(path)


def _form(path: Path, data: bytes) -> str:
    """The form of a file by its extension; of an unknown one by what the file holds."""
    try:
        return form_of(path)
    except UsageError:
        if _LOOKS_LIKE_TEXT.match(data):
            return TEXT
        if b"\0" in data[:4096]:
            return BINARY
        raise


def form_of(path: Path) -> str:
    """`text`, `binary` or `text-proto`, by the extension; `UsageError` for an unknown one."""
    extension = without_compression(path).suffix.lower()
    known = ", ".join((*EXTENSIONS, *MLIR))
    if extension in MLIR:
        raise UsageError(f"{path}: StableHLO is not a form of HLO", rule="extension")
    if extension not in EXTENSIONS:
        raise UsageError(
            f"{path}: unknown extension {extension!r}",
            hint=f"known extensions: {known} (also with .gz, .xz or .bz2 behind)",
            rule="extension",
        )
    return EXTENSIONS[extension]


def _loaded(data: bytes, form: str, file: str) -> Loaded:
    from hloom.ir.proto.kinds import load_binary, load_text_proto

    # A file that is plainly another thing than its extension says is read as what it is.
    if form == BINARY and _LOOKS_LIKE_TEXT.match(data):
        form = TEXT
    if form == TEXT and b"\0" in data[:4096]:
        form = BINARY
    try:
        if form == BINARY:
            return load_binary(data)
        try:
            text = data.decode("utf-8-sig")  # some editors begin with a mark
        except UnicodeDecodeError as error:
            raise UsageError(f"{file}: byte {error.start} is not UTF-8 text") from None
        return load_text(text, file) if form == TEXT else load_text_proto(text, file)
    except ProtoError as error:
        if error.location is None:
            error.message = f"{file}: {error.message}"
        raise


def load_text(text: str, file: str | None = None) -> Loaded:
    """The module of HLO text, log prefixes removed."""
    from hloom.ir.text.parse import parse_module

    return Loaded(parse_module(without_log_prefixes(text), file), "text")


def without_log_prefixes(text: str) -> str:
    """Text pasted from a log, without what the logger put before each line.

    Lines before the module that came from the log go too. Text without prefixes stays as it is.
    """
    if not _LOG.search(text):
        return text
    text = _LOG.sub("", text)
    start = re.search(r"^HloModule\b", text, re.M)
    return text[start.start() :] if start else text


# -- writing


def save(
    module: Module,
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    snapshot: Snapshot | None = None,
) -> None:
    """Write a module (or a snapshot of it) to a file; its extension says text, `.pb` or `.pbtxt`.

    `format` is one of `FORMATS`; by default `text` or `proto`. The file appears whole or not at
    all. `UsageError` where it cannot be written, `ProtoError` where no message can hold it.
    """
    path = Path(path)
    form = form_of(path)
    if format is None:
        format = "text" if form == TEXT else "proto"
    if format not in FORMATS:
        raise UsageError(f"unknown format {format!r}", hint=f"known: {', '.join(FORMATS)}")
    if (format == "text") != (form == TEXT):
        raise UsageError(f"{path}: a file with this extension does not hold the format {format}")
    data = file_bytes(module, format, form, snapshot=snapshot)
    write_whole(path, compressed(data, path))


def file_bytes(
    module: Module, format: str, form: str = BINARY, *, snapshot: Snapshot | None = None
) -> bytes:
    """What a file of this format holds; `form` is `binary` or `text-proto` for a message."""
    if format == "text":
        from hloom.ir.text.show import show_module

        return show_module(module, replace(PrintOptions(), large_constants=True)).encode()
    from hloom.ir import schema
    from hloom.ir.proto.snapshot import Snapshot, snapshot_to_bytes, snapshot_to_message
    from hloom.ir.proto.wire import message_bytes, message_text
    from hloom.ir.proto.write import module_to_proto

    snapshot = snapshot or Snapshot(module)
    if format == "custom-snapshot":
        if form != BINARY:
            raise UsageError("the custom serialisation has no text form")
        return snapshot_to_bytes(snapshot, "custom-snapshot")
    if format == "proto":
        message = module_to_proto(module)
    elif format == "hlo-proto":
        message = schema.HloProto()
        message.hlo_module.CopyFrom(module_to_proto(module))
        if buffers := module.carried.get(BUFFERS):
            message.buffer_assignment.MergeFromString(buffers)
    elif format == "snapshot":
        message = snapshot_to_message(snapshot, "snapshot")
    else:
        message = snapshot_to_message(snapshot, "unoptimized-snapshot")
    if form == BINARY:
        return message_bytes(message)
    return message_text(message).encode("utf-8")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file beside its place, then put it there in one step."""
    with written_whole(path) as file:
        file.write(data)


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears at its place when all is written to it, or not at all; what is no file,
    a pipe or a device, is written to."""
    beside, place = None, replaceable(path)
    try:
        if place is None:
            with open(path, "wb") as file:
                yield file
            return
        with tempfile.NamedTemporaryFile(
            dir=place.parent, prefix=f".{place.name}.", suffix=".part", delete=False
        ) as file:
            beside = file.name
            yield file
        mode = place.stat().st_mode & 0o777 if place.exists() else 0o666 & ~_umask()
        os.chmod(beside, mode)
        os.replace(beside, place)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        if beside is not None:
            Path(beside).unlink(missing_ok=True)


def _umask() -> int:
    """The file mode bits that this process leaves out; there is no way to ask but to set it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
