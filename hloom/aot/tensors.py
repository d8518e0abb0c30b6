"""Weights by the model's own names: safetensors files, and the table by which a library reads them.

Any file with tensors of these names, types and shapes will do: that of another training run is
loaded without compiling anything. What is missing in it, too much, or of another shape is named.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hloom.aot.names import c_name
from hloom.api import Shape, Tensor, UsageError

SAFETENSORS = {
    "pred": "BOOL",
    "bf16": "BF16",
    "c64": "C64",
    "f8e4m3fn": "F8_E4M3",
    "f8e5m2": "F8_E5M2",
    **{f"f{bits}": f"F{bits}" for bits in (16, 32, 64)},
    **{f"s{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
}
"""Types by their names here, as safetensors calls them."""
MOST_NAME_BYTES = 500
_ALIGNMENT = 64
WITHOUT = "__metadata__"

ByNumber = Mapping[int, str]


@dataclass(frozen=True)
class NamedWeights:
    """Which inputs of which functions are weights, and what is written to the file."""

    names: dict[str, ByNumber]
    """By the key of the function, "" for a single one, and the number of the input."""
    values: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    """By name; none: no file is written."""

    def add(
        self, key: str, numbers: Iterable[tuple[int, str]], values: Sequence[np.ndarray[Any, Any]]
    ) -> None:
        """The inputs of a function that are weights, numbered, and their values."""
        by_number = dict(numbers)
        self.names[key] = by_number
        self.values.update(zip(by_number.values(), values, strict=True))

    def of(self, key: str) -> ByNumber:
        """Those of a function, as it is called behind the library's name; the same for all
        buckets."""
        by_key = {c_name(k).strip("_"): by_number for k, by_number in self.names.items() if k}
        return by_key.get(key, self.names.get("", {}))


def written_tensors(values: Mapping[str, np.ndarray[Any, Any]], tensors: Iterable[Tensor]) -> bytes:
    """The file: the values of what the library takes, each where 64 bytes begin."""
    entries: dict[str, object] = {WITHOUT: {"made_by": "hloom"}}
    pieces: list[bytes] = []
    at = 0
    # The widest first, as others write them: then nothing lies between.
    for t in sorted(tensors, key=lambda t: (-t.alignment, t.name)):
        if t.name not in values:
            raise UsageError(f"the weight {t.name} has no values", rule="weights-by-name")
        array = np.asarray(values[t.name], order="C")  # which keeps scalars
        if array.nbytes != t.size_bytes or tuple(array.shape) != tuple(t.shape.dims):
            raise UsageError(
                f"the weight {t.name} is {array.dtype.name}{list(array.shape)}, and the program "
                f"takes {t.shape.text_without_layout}",
                rule="weights-by-name",
            )
        entries[t.name] = {
            "dtype": dtype_name(t.name, t.shape),
            "shape": list(t.shape.dims),
            "data_offsets": [at, at + array.nbytes],
        }
        pieces.append(array.tobytes())
        at += array.nbytes
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text = text.ljust(-(-(len(text) + 8) // _ALIGNMENT) * _ALIGNMENT - 8)
    return b"".join([struct.pack("<q", len(text)), text, *pieces])


def dtype_name(name: str, shape: Shape) -> str:
    """As safetensors calls it; `UsageError` for a type that it has not."""
    known = SAFETENSORS.get(shape.dtype.name)
    if known is None:
        raise UsageError(
            f"the weight {name} is {shape.text_without_layout}, a type that safetensors files "
            "have not",
            rule="weights-by-name",
            hint="leave it an input, or a constant",
        )
    return known


def table_source(tensors: Sequence[Tensor]) -> str:
    """What native/tensors.c is told of the tensors, which are in the order of their slots."""
    in_order = sorted(tensors, key=lambda t: t.name.encode())
    rows: list[str] = []
    lines = ["#include <stdint.h>"]
    for k, t in enumerate(in_order):
        data, dims = t.name.encode(), t.shape.dims
        if not data or b"\0" in data or len(data) > MOST_NAME_BYTES or t.name == WITHOUT:
            raise UsageError(
                f"{t.name[:60]!r} is no name for a weight; they have 1 to {MOST_NAME_BYTES} bytes",
                rule="weights-by-name",
            )
        sizes = ", ".join([f"{d}u" for d in dims]) or "0"
        lines.append(f"static const uint64_t dims{k}[] = {{{sizes}}};")
        numbers = f"{len(dims)}, {t.size_bytes}u, {t.alignment}, dims{k}"
        rows.append(f'  {{{_quoted(data)}, "{dtype_name(t.name, t.shape)}", {numbers}}},')
    lines.append("static const struct { const char *name, *dtype; uint64_t rank, bytes, alignment;")
    lines += ["  const uint64_t *dims; } expected[] = {", *rows, "};"]
    places = {t.name: k for k, t in enumerate(in_order)}
    at = ", ".join([str(places[t.name]) for t in tensors])
    lines += [f"static const int expected_at[] = {{{at}}};", f"#define HLOOM_TENSORS {len(rows)}"]
    return "\n".join([*lines, ""])


def _quoted(data: bytes) -> str:
    """Bytes as a text of C, where a letter behind a number is no part of it."""
    plain = [
        chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in data
    ]  # fmt: skip
    return f'"{"".join(plain)}"'


def header_lines(library: str, tensors: Sequence[Tensor]) -> list[str]:
    """What the header says of them."""
    prefix = library.upper()
    lines = [
        "/* The weights are tensors of a safetensors file: any that has these, and no others.",
        *[f" *   {_comment(t.name)}  {t.shape.text_without_layout}" for t in tensors],
        " */",
        f"#define {prefix}_WEIGHTS {len(tensors)}",
        f"#define {prefix}_WEIGHTS_BYTES {sum([t.size_bytes for t in tensors])}",
        "/* What was wrong with the last file, in words, with the name of the tensor. */",
        f"const char *{library}_weights_problem(void);",
        "",
    ]
    return lines


def _comment(name: str) -> str:
    return name.replace("*/", "* /").replace("\n", " ")
