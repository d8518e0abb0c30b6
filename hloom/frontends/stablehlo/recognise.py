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


def extension_of(path: str | os.PathLike[str]) -> str:
    """In small letters, without a .gz behind it."""
    stem, extension = os.path.splitext(os.fspath(path).lower())
    return os.path.splitext(stem)[1] if extension == ".gz" else extension


def is_file_of_mlir(path: str | os.PathLike[str]) -> bool:
    """Whether a file's extension says MLIR."""
    return extension_of(path) in (*TEXT, *BYTECODE)


def is_text_of_mlir(text: str) -> bool:
    """Whether text looks like MLIR rather than like HLO."""
    return _STARTS.match(text) is not None
