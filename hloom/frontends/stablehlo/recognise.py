"""What is StableHLO, by extension or by content; light, as every program is asked this."""

from __future__ import annotations

import os
import re

TEXT, BYTECODE = (".mlir", ".stablehlo", ".mhlo"), (".mlirbc",)
"""Extensions of files."""
FORMATS = ("stablehlo", "stablehlo-bytecode", "stablehlo-artifact")
"""Text, bytecode, and bytecode that other versions of StableHLO read too."""
MAGIC = b"ML\xefR"
"""How bytecode of MLIR begins."""
_STARTS = re.compile(
    r"(?:\s*//[^\n]*\n)*\s*(?:#[\w.]+ *=|![\w.]+ *=|(?:builtin\.)?module\b|func\.func\b"
    r'|sdy\.mesh\b|vhlo\.|"(?:builtin\.module|func\.func|vhlo\.))'
)


COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
"""As `ir/proto/compressed.py` has them, which is not imported for programs that are not."""


def extension_of(path: str | os.PathLike[str]) -> str:
    """In small letters, without that of a compressor behind it."""
    stem, extension = os.path.splitext(os.fspath(path).lower())
    return os.path.splitext(stem)[1] if extension in COMPRESSED else extension


def is_file_of_mlir(path: str | os.PathLike[str]) -> bool:
    """Whether a file's extension says MLIR."""
    return extension_of(path) in (*TEXT, *BYTECODE)


def is_mlir(data: bytes) -> bool:
    """Whether the bytes of a file are MLIR, in text or bytecode."""
    start = data[:4096].removeprefix(b"\xef\xbb\xbf")
    return start.startswith(MAGIC) or is_text_of_mlir(start.decode("latin-1"))


def is_text_of_mlir(text: str) -> bool:
    """Whether text looks like MLIR rather than like HLO."""
    return _STARTS.match(text) is not None
