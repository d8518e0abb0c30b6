"""Files of weights that a C library maps: hloom's own, safetensors, npz.

The library knows the file's size and a sum over all of it, so that any other file is refused; the
constants lie where 64 bytes begin, whatever stands before and between them.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hloom.api import UsageError, Weights, weights_bytes

MAGIC = b"HLOOMWTS"
NPZ_GAP = 256
"""What an array of an npz has before it: heads of the member and of the array."""
FILES = (".bin", ".safetensors", ".npz")
_PIECE = 1 << 20


class WeightsFile(NamedTuple):
    """What is written, and what the library knows of it."""

    data: bytes
    begin: int
    """Where the offsets of the constants count from."""

    @property
    def sum(self) -> int:
        """As native/weights.c has it."""
        return file_sum(self.data)


def gap_bytes(path: Path) -> int:
    """Bytes before each constant in a file of this name; `UsageError` for one of no kind."""
    if path.suffix.lower() not in FILES:
        raise UsageError(
            f"{path.name} is no file of weights",
            rule="weights-file",
            hint=f"it ends with one of {', '.join(FILES)}",
        )
    return NPZ_GAP if path.suffix.lower() == ".npz" else 0


def weights_file(path: Path, library: str, weights: Weights) -> WeightsFile:
    """The file for a table of constants."""
    kind = path.suffix.lower()
    if kind == ".npz":
        return WeightsFile(_npz(weights), 0)
    head = _safetensors_head(library, weights) if kind == ".safetensors" else _own_head(weights)
    return WeightsFile(head + weights_bytes(weights), len(head))


def _own_head(weights: Weights) -> bytes:
    return struct.pack("<8s2q", MAGIC, 1, weights.size_bytes).ljust(64, b"\0")


def _safetensors_head(library: str, weights: Weights) -> bytes:
    """The length of the text, and the text: each constant and each hole as bytes."""
    entries: dict[str, object] = {"__metadata__": {"made_by": "hloom", "library": library}}
    end = 0
    for number, (offset, data) in enumerate(weights.items):
        if offset > end:
            entries[f"padding{number}"] = _tensor(end, offset)
        end = offset + len(data)
        entries[f"weight{number}"] = _tensor(offset, end)
    text = json.dumps(entries, separators=(",", ":")).encode()
    text = text.ljust(-(-(len(text) + 8) // 64) * 64 - 8)
    return struct.pack("<q", len(text)) + text


def _tensor(begin: int, end: int) -> dict[str, object]:
    return {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}


def _npz(weights: Weights) -> bytes:
    """A zip without compression, in which every array begins where its offset says."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for number, (offset, data) in enumerate(weights.items):
            head = io.BytesIO()
            array = {"descr": "|u1", "fortran_order": False, "shape": (len(data),)}
            np.lib.format.write_array_header_1_0(head, array)
            about = zipfile.ZipInfo(f"weight{number}.npy")
            extra = offset - file.tell() - len(head.getvalue()) - 30 - len(about.filename)
            about.extra = struct.pack("<2H", 0xD935, extra - 4) + bytes(extra - 4)
            archive.writestr(about, head.getvalue() + bytes(data))
    return file.getvalue()


def file_sum(data: bytes) -> int:
    """A sum of all words of 64 bits, each times an odd number of its own, modulo 2**64."""
    words = np.frombuffer(data.ljust(-(-len(data) // 8) * 8, b"\0"), np.uint64)
    total = 0
    with np.errstate(over="ignore"):
        for begin in range(0, len(words), _PIECE):
            piece = words[begin : begin + _PIECE]
            x = np.arange(begin + 1, begin + 1 + len(piece), dtype=np.uint64)
            x *= np.uint64(0x9E3779B97F4A7C15)
            x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
            total += int(np.sum(piece * (x | np.uint64(1)), dtype=np.uint64))
    return total % (1 << 64)
